"""Turns flags and run files into descriptions and tables."""
