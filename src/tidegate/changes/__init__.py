"""What differs between two versions of an app: as data, with the reasons and their source lines."""
