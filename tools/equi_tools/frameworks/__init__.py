"""The only code that knows the training frameworks: one converter and one float64 oracle for each."""
