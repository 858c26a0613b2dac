"""Other packages' ways of calling, answered by ours; nothing else in the library imports this room."""
