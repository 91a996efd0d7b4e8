"""Small dense algebra."""
