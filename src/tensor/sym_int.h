// Integers that may depend on symbols, for sizes that only a run knows, such as a batch size.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qdq {

// A polynomial with integer coefficients in symbols ("s0") and opaque atoms (a floor division that does not come out
// even, kept as sympy text), which only evaluate() looks into. Two SymInts are equal when their polynomials are. Throws
// Error{kInvalidArgument} on overflow and beyond 256 terms in a product, 16 factors in a term or 4096 characters of an
// atom.
class SymInt {
 public:
  SymInt(int64_t value = 0);  // An integer is a SymInt
  static SymInt symbol(std::string name);
  // Reads torch.export's expr_str (sympy's srepr: "Mul(Integer(2), Symbol('s0', positive=True, integer=True))") or a
  // bare name or number. An expression outside of the polynomials becomes an opaque atom. Throws Error{kBadFile} on
  // malformed text.
  static SymInt parse(std::string_view srepr);

  bool is_constant() const;
  std::optional<int64_t> constant() const;  // the value, unless symbols are left
  // The value for given symbols; nothing if one is missing, or an atom is another function than a floor division, its
  // rest, a power, a smallest or a largest, or divides by zero.
  std::optional<int64_t> evaluate(const std::map<std::string, int64_t>& symbols) const;

  SymInt operator+(const SymInt& other) const;
  SymInt operator-(const SymInt& other) const;
  SymInt operator*(const SymInt& other) const;
  // Floor division; exact where every term divides, or all terms are the same multiple of the divisor's, else an opaque
  // atom. Throws Error{kInvalidArgument} for a zero divisor.
  SymInt floor_div(const SymInt& other) const;
  bool operator==(const SymInt& other) const = default;

  std::string to_string() const;  // "2*s0 + 1", as PyTorch prints it
  std::string to_srepr() const;   // what torch.export writes and evaluates

 private:
  using Monomial = std::vector<std::string>;  // sorted factors; empty for the constant term
  std::map<Monomial, int64_t> terms_;         // no zero coefficients
  // k where this is k times `of`.
  std::optional<int64_t> whole_multiple(const SymInt& of) const;
  void add_term(const Monomial& monomial, int64_t coefficient);
  friend class SreprParser;
};

using SymShape = std::vector<SymInt>;
std::string to_string(const SymShape& shape);

}  // namespace qdq
