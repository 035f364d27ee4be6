return row(0)
