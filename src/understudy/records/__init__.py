"""What a record is: images, columns, and both as arrays. No private row lives here."""
