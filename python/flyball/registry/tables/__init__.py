"""The database: tables made from events, their migrations and the questions that they answer."""
