"""What tests share. tests/README.md lists what is here, and says how the tests are laid out."""
