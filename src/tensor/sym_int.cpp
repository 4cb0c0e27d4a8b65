#include "tensor/sym_int.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/error.h"
#include "base/stable_sort.h"
#include "tensor/sym_arithmetic.h"

namespace qdq {
namespace {

int64_t checked_add(int64_t a, int64_t b) {
  int64_t out;
  QDQ_CHECK(!__builtin_add_overflow(a, b, &out), kInvalidArgument, "a symbolic size overflows 64 bits: ", a, " + ", b);
  return out;
}

int64_t checked_mul(int64_t a, int64_t b) {
  int64_t out;
  QDQ_CHECK(!__builtin_mul_overflow(a, b, &out), kInvalidArgument, "a symbolic size overflows 64 bits: ", a, " * ", b);
  return out;
}

// Files say what is computed here, and a power of a power of a sum grows without end.
constexpr size_t kMaxTerms = 256, kMaxFactors = 16, kMaxAtom = 4096;
constexpr int64_t kMaxPower = 8;  // of what is no number

// The processor stops a program that divides the least number by -1, for the quotient as for the rest.
bool divides(int64_t b, int64_t a) { return b == -1 || a % b == 0; }
int64_t floor_divide(int64_t a, int64_t b) {
  if (b == -1) return checked_mul(a, -1);
  return a / b - (!divides(b, a) && ((a < 0) != (b < 0)));
}
int64_t floor_modulo(int64_t a, int64_t b) {
  if (divides(b, a)) return 0;
  const int64_t rest = a % b;
  return (rest < 0) == (b < 0) ? rest : rest + b;
}

// A symbol as torch.export writes the sizes of inputs.
std::string symbol_srepr(std::string_view name) { return concat("Symbol('", name, "', positive=True, integer=True)"); }

bool is_symbol(const std::string& factor) { return factor.find('(') == std::string::npos; }

// An atom as PyTorch prints it: "((s0 + 1)//2)".
std::string printed(const std::string& atom);

}  // namespace

SymInt::SymInt(int64_t value) {
  if (value != 0) terms_[{}] = value;
}

SymInt SymInt::symbol(std::string name) {
  QDQ_CHECK(name.size() <= kMaxAtom, kInvalidArgument, "a symbolic size has an expression of ", name.size(),
            " characters, at most ", kMaxAtom,
            " are taken; give the model's inputs fixed sizes (--fix image=3,224,224)");
  SymInt out;
  out.terms_[{std::move(name)}] = 1;
  return out;
}

void SymInt::add_term(const Monomial& monomial, int64_t coefficient) {
  const int64_t sum = checked_add(terms_[monomial], coefficient);
  if (sum == 0) terms_.erase(monomial);
  else terms_[monomial] = sum;
}

bool SymInt::is_constant() const { return terms_.empty() || (terms_.size() == 1 && terms_.begin()->first.empty()); }

std::optional<int64_t> SymInt::constant() const {
  if (terms_.empty()) return 0;
  return is_constant() ? std::optional<int64_t>(terms_.begin()->second) : std::nullopt;
}

SymInt SymInt::operator+(const SymInt& other) const {
  SymInt out = *this;
  for (const auto& [monomial, coefficient] : other.terms_) out.add_term(monomial, coefficient);
  return out;
}

SymInt SymInt::operator-(const SymInt& other) const { return *this + other * SymInt(-1); }

SymInt SymInt::operator*(const SymInt& other) const {
  QDQ_CHECK(terms_.size() * other.terms_.size() <= kMaxTerms, kInvalidArgument, "a symbolic size has more than ",
            kMaxTerms, " terms");
  SymInt out;
  for (const auto& [a, x] : terms_) {
    for (const auto& [b, y] : other.terms_) {
      Monomial product = a;
      product.insert(product.end(), b.begin(), b.end());
      QDQ_CHECK(product.size() <= kMaxFactors, kInvalidArgument, "a symbolic size has a product of more than ",
                kMaxFactors, " factors");
      sort_stably(product);
      out.add_term(product, checked_mul(x, y));
    }
  }
  return out;
}

std::optional<int64_t> SymInt::whole_multiple(const SymInt& of) const {
  std::optional<int64_t> times;
  if (terms_.size() != of.terms_.size()) return times;
  for (auto a = terms_.begin(), b = of.terms_.begin(); a != terms_.end(); ++a, ++b) {
    if (a->first != b->first || !divides(b->second, a->second)) return std::nullopt;
    const int64_t quotient = floor_divide(a->second, b->second);
    if (times && *times != quotient) return std::nullopt;
    times = quotient;
  }
  return times;
}

SymInt SymInt::floor_div(const SymInt& other) const {
  QDQ_CHECK(!other.terms_.empty(), kInvalidArgument, "the symbolic size ", to_string(), " is divided by zero");
  if (is_constant() && other.is_constant()) return floor_divide(*constant(), *other.constant());
  if (other.terms_.size() == 1) {
    const auto& [divisor, by] = *other.terms_.begin();
    SymInt out;
    bool exact = true;
    for (const auto& [monomial, coefficient] : terms_) {
      Monomial rest;
      exact = exact && divides(by, coefficient) &&
              std::includes(monomial.begin(), monomial.end(), divisor.begin(), divisor.end());
      if (!exact) break;
      std::set_difference(monomial.begin(), monomial.end(), divisor.begin(), divisor.end(), std::back_inserter(rest));
      out.add_term(rest, floor_divide(coefficient, by));
    }
    if (exact) return out;
  } else if (const auto times = whole_multiple(other)) {
    return *times;
  }
  return symbol("FloorDiv(" + to_srepr() + ", " + other.to_srepr() + ")");
}

SymInt size_modulo(const SymInt& a, const SymInt& b) {
  QDQ_CHECK(!(b == SymInt(0)), kInvalidArgument, "the symbolic size ", a.to_string(), " is divided by zero");
  if (a.is_constant() && b.is_constant()) return floor_modulo(*a.constant(), *b.constant());
  return a - a.floor_div(b) * b;
}

SymInt size_power(const SymInt& base, const SymInt& exponent) {
  const std::optional<int64_t> times = exponent.constant(), known = base.constant();
  QDQ_CHECK(!times || *times >= 0, kInvalidArgument, "the symbolic size ", base.to_string(), " has the power ",
            times.value_or(0), ", which is no integer");
  if (!times || (!known && *times > kMaxPower))
    return SymInt::symbol("PowByNatural(" + base.to_srepr() + ", " + exponent.to_srepr() + ")");
  if (known && *known >= -1 && *known <= 1) return *times == 0 ? 1 : *times % 2 == 0 ? *known * *known : *known;
  SymInt out(1);
  for (int64_t i = 0; i < *times; ++i) out = out * base;  // overflows at once where the power is large
  return out;
}

std::string SymInt::to_string() const {
  std::string out;
  // Symbols first, the constant last, as sympy prints.
  for (auto it = terms_.rbegin(); it != terms_.rend(); ++it) {
    const auto& [monomial, coefficient] = *it;
    if (!out.empty()) out += coefficient < 0 ? " - " : " + ";
    // The sign, and the number without it, which the least one has in 64 bits without a sign alone.
    if (out.empty() && coefficient < 0) out += "-";
    const auto bits = static_cast<uint64_t>(coefficient), size = coefficient < 0 ? 0 - bits : bits;
    if (monomial.empty()) {
      out += std::to_string(size);
      continue;
    }
    if (size != 1) out += std::to_string(size) + "*";
    for (size_t i = 0; i < monomial.size(); ++i) out += (i ? "*" : "") + printed(monomial[i]);
  }
  return out.empty() ? "0" : out;
}

std::string SymInt::to_srepr() const {
  std::vector<std::string> sum;
  for (auto it = terms_.rbegin(); it != terms_.rend(); ++it) {
    const auto& [monomial, coefficient] = *it;
    std::vector<std::string> product;
    if (coefficient != 1 || monomial.empty()) product.push_back("Integer(" + std::to_string(coefficient) + ")");
    for (const std::string& factor : monomial) product.push_back(is_symbol(factor) ? symbol_srepr(factor) : factor);
    std::string text = product[0];
    if (product.size() > 1) {
      text = "Mul(" + product[0];
      for (size_t i = 1; i < product.size(); ++i) text += ", " + product[i];
      text += ")";
    }
    sum.push_back(text);
  }
  if (sum.empty()) return "Integer(0)";
  if (sum.size() == 1) return sum[0];
  std::string text = "Add(" + sum[0];
  for (size_t i = 1; i < sum.size(); ++i) text += ", " + sum[i];
  return text + ")";
}

// Recursive descent over sympy's srepr.
class SreprParser {
 public:
  using Symbols = std::map<std::string, int64_t>;
  // With `symbols` their values stand for them, and functions of numbers are computed.
  explicit SreprParser(std::string_view text, const Symbols* symbols = nullptr) : text_(text), symbols_(symbols) {}

  SymInt parse_all() {
    SymInt out = parse(0);
    skip_space();
    check(at_ == text_.size());
    return out;
  }

  // A function and its arguments; nothing for another form.
  std::optional<std::pair<std::string_view, std::vector<SymInt>>> parse_function() {
    const std::string_view name = word();
    if (!accept('(')) return std::nullopt;
    std::vector<SymInt> arguments = parse_list(0);
    skip_space();
    if (at_ != text_.size()) return std::nullopt;
    return std::pair(name, std::move(arguments));
  }

 private:
  void check(bool ok) const {
    QDQ_CHECK(ok, kBadFile, "the symbolic expression '", text_.substr(0, 200), "' is malformed at character ", at_);
  }
  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ < text_.size() && text_[at_] == c) return ++at_, true;
    return false;
  }
  std::string_view word() {
    skip_space();
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' || text_[at_] == '-'))
      ++at_;
    check(at_ > begin);
    return text_.substr(begin, at_ - begin);
  }
  int64_t number(std::string_view digits) const {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    QDQ_CHECK(error != std::errc::result_out_of_range, kBadFile, "the symbolic expression '", text_.substr(0, 200),
              "' has the number ", digits.substr(0, 40), ", which overflows 64 bits");
    check(error == std::errc() && end == digits.data() + digits.size());
    return value;
  }
  static bool is_number(std::string_view text) {
    return std::isdigit(static_cast<unsigned char>(text.back())) &&
           (text[0] == '-' || std::isdigit(static_cast<unsigned char>(text[0])));
  }

  // Steps over the rest of an argument list, whatever it holds.
  void skip_arguments() {
    int depth = 1;
    while (depth > 0) {
      check(at_ < text_.size());
      if (text_[at_] == '(') ++depth;
      if (text_[at_] == ')') --depth;
      ++at_;
    }
  }

  SymInt named(std::string_view name) const {
    if (symbols_ != nullptr)
      if (const auto found = symbols_->find(std::string(name)); found != symbols_->end()) return found->second;
    return SymInt::symbol(std::string(name));
  }

  // A function of numbers; nothing if it is none that is known, or they are not all known.
  std::optional<int64_t> value_of(std::string_view function, const std::vector<SymInt>& parts) const {
    std::vector<int64_t> values;
    for (const SymInt& part : parts) {
      if (!part.constant()) return std::nullopt;
      values.push_back(*part.constant());
    }
    if (function == "Max") return *std::max_element(values.begin(), values.end());
    if (function == "Min") return *std::min_element(values.begin(), values.end());
    if (values.size() != 2) return std::nullopt;
    if (function == "PowByNatural") return values[1] < 0 ? std::nullopt : size_power(values[0], values[1]).constant();
    if (values[1] == 0) return std::nullopt;
    return function == "FloorDiv" || function == "CleanDiv" ? floor_divide(values[0], values[1])
                                                            : floor_modulo(values[0], values[1]);
  }

  // Spells symbols as to_srepr() does: sympy takes Symbol('u0', integer=True), a size that a run tells, for another one
  // than Symbol('u0', positive=True, integer=True), and PyTorch does not load a file that has both.
  static SymInt atom(std::string_view text) {
    constexpr std::string_view kSymbol = "Symbol('";
    std::string out;
    for (size_t at = text.find(kSymbol); at != std::string_view::npos; at = text.find(kSymbol)) {
      const size_t name = at + kSymbol.size(), quote = text.find('\'', name), end = text.find(')', quote);
      if (end == std::string_view::npos) break;
      out += concat(text.substr(0, at), symbol_srepr(text.substr(name, quote - name)));
      text.remove_prefix(end + 1);
    }
    return SymInt::symbol(out.append(text));
  }

  std::vector<SymInt> parse_list(int depth) {
    std::vector<SymInt> parts;
    do parts.push_back(parse(depth + 1));
    while (accept(','));
    check(accept(')'));
    return parts;
  }

  SymInt parse(int depth) {
    check(depth < 64);
    skip_space();
    const size_t begin = at_;
    const std::string_view name = word();
    if (!accept('(')) return is_number(name) ? SymInt(number(name)) : named(name);
    if (name == "Symbol") {
      check(accept('\''));
      const std::string symbol(word());
      check(accept('\''));
      skip_arguments();
      return named(symbol);
    }
    if (name == "Integer") {
      const int64_t value = number(word());
      check(accept(')'));
      return value;
    }
    const bool computes =
        symbols_ != nullptr && (name == "FloorDiv" || name == "CleanDiv" || name == "Mod" || name == "PythonMod" ||
                                name == "Max" || name == "Min" || name == "PowByNatural");
    if (computes) {
      if (const std::optional<int64_t> value = value_of(name, parse_list(depth))) return *value;
      return atom(text_.substr(begin, at_ - begin));
    }
    if (name == "Mul" || name == "Add" || name == "FloorDiv" || name == "Pow" || name == "PowByNatural") {
      const std::vector<SymInt> parts = parse_list(depth);
      if (name == "FloorDiv") {
        check(parts.size() == 2);
        return parts[0].floor_div(parts[1]);
      }
      if (name == "Pow" || name == "PowByNatural") {
        check(parts.size() == 2);
        if (parts[1].constant().value_or(-1) >= 0) return size_power(parts[0], parts[1]);
        return atom(text_.substr(begin, at_ - begin));
      }
      SymInt out = parts[0];
      for (size_t i = 1; i < parts.size(); ++i) out = name == "Mul" ? out * parts[i] : out + parts[i];
      return out;
    }
    skip_arguments();
    return atom(text_.substr(begin, at_ - begin));
  }

  std::string_view text_;
  const Symbols* symbols_;
  size_t at_ = 0;
};

SymInt SymInt::parse(std::string_view srepr) { return SreprParser(srepr).parse_all(); }

namespace {

// Whether a printed size is a sum or a product, outside of its parentheses.
bool is_sum_or_product(const std::string& text) {
  int64_t depth = 0;
  return std::ranges::any_of(text, [&](char c) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    return depth == 0 && (c == ' ' || c == '*');
  });
}

std::string printed(const std::string& atom) {
  if (is_symbol(atom)) return atom;
  try {
    const auto function = SreprParser(atom).parse_function();
    if (!function) return atom;
    const auto& [name, arguments] = *function;
    const bool is_quotient = name == "FloorDiv" || name == "CleanDiv";
    const bool is_infix = (is_quotient || name == "Mod" || name == "PythonMod") && arguments.size() == 2;
    std::string out = is_infix ? "(" : concat(name, "(");
    for (size_t i = 0; i < arguments.size(); ++i) {
      const std::string text = arguments[i].to_string();
      if (i > 0) out += !is_infix ? ", " : is_quotient ? "//" : " % ";
      out += is_infix && is_sum_or_product(text) ? concat("(", text, ")") : text;
    }
    return out + ")";
  } catch (const Error&) {
    return atom;  // of another form than what is known
  }
}

std::optional<int64_t> value_of_atom(const std::string& atom, const std::map<std::string, int64_t>& symbols) {
  if (is_symbol(atom)) return std::nullopt;
  return SreprParser(atom, &symbols).parse_all().constant();
}

}  // namespace

std::optional<int64_t> SymInt::evaluate(const std::map<std::string, int64_t>& symbols) const {
  int64_t sum = 0;
  for (const auto& [monomial, coefficient] : terms_) {
    int64_t product = coefficient;
    for (const std::string& factor : monomial) {
      const auto found = symbols.find(printed(factor));
      const std::optional<int64_t> value = found != symbols.end() ? found->second : value_of_atom(factor, symbols);
      if (!value) return std::nullopt;
      product = checked_mul(product, *value);
    }
    sum = checked_add(sum, product);
  }
  return sum;
}

std::string to_string(const SymShape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + shape[i].to_string();
  return out + "]";
}

bool is_negated(const SymInt& size) {
  const std::string text = size.to_string();
  return text.starts_with('-') && text.find(" + ") == std::string::npos;
}

}  // namespace qdq
