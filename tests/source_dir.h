// Where the checkout lies, for tests that read its files. Not a macro of the command line: compiled objects of two
// checkouts would differ, and the compiler cache would have neither for the other.
#pragma once

extern const char* const kSourceDir;
