"""`heed serve`: a page, and an interface for programs, to trained runs on one machine; needs the extra `serve`."""
