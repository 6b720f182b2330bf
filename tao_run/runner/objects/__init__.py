"""Object stores: one small interface, and the clients that speak S3."""
