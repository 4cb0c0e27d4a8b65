// What a search for precision found, as JSON for the command line, reports and JavaScript.
#pragma once

#include <string>

#include "format/json_fwd.h"
#include "recover/precision.h"

namespace qdq {

// {precision, operators, score, bytes?, seconds?, front?}. `sign` is -1 for scores whose negative is told.
format::Json precision_trial_report(const PrecisionTrial& trial, double sign = 1);

// {reached, precision, before, after, best, operators: [{node, module}], trials}: `before` and `after` are scores,
// `best` and the elements of `trials` precision_trial_report().
format::Json precision_report(const PrecisionResult& result, double sign = 1);

// A search as the text of a file. `identity` names the program, the samples and the measures that it is about.
std::string print_search(const PrecisionSearch& search, const std::string& identity);
// Throws Error{kBadFile} or Error{kInvalidArgument} for a text that is none, and Error{kInvalidArgument} for a search
// with another identity; `path` names it.
PrecisionSearch parse_search(const std::string& text, const std::string& identity, const std::string& path);

// Names what a search is about: the recovery's program as it is, its samples' float outputs, and the words for what is
// measured.
std::string identity_of_search(Recovery& recovery, const std::string& measures);

}  // namespace qdq
