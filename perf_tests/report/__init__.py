"""What is made of results: tables for the terminal and the pages."""
