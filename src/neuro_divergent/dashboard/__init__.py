"""The dashboard: a local web page that reads run directories, offline. The server needs no torch."""
