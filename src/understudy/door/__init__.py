"""PRIVATE: the one room that holds private records and adds noise."""
