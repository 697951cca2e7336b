"""Results: a small record of each run and benchmark, and a page whose tables are made of them."""
