#include "report/svg_chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <span>

#include "base/error.h"

namespace qdq {

namespace {

constexpr double kMostDb = 60;

// Text between tags and in attributes: no markup, and no character that XML forbids.
std::string as_text(const std::string& text, size_t most) {
  std::string out;
  size_t shown = 0;
  for (const char c : text) {
    // Not in the middle of a character of several bytes.
    if (shown >= most && (static_cast<unsigned char>(c) & 0xc0) != 0x80) {
      out += "…";
      break;
    }
    ++shown;
    if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '"') out += "&quot;";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) out += ' ';
    else out += c;
  }
  return out;
}

std::string with_places(double number, int places) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", places, number);
  return text;
}
// Coordinates, with two places, and numbers for readers, with four digits.
std::string at(double number) { return with_places(number, 2); }
std::string in_digits(double number) {
  char text[64];
  std::snprintf(text, sizeof text, "%.4g", number);
  return text;
}

std::string opened(const std::string& title, double width, double height) {
  return concat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", at(width), " ", at(height), "\" width=\"",
                at(width), "\" height=\"", at(height),
                "\" role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n<title>", as_text(title, 200),
                "</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"16\" y=\"26\" ",
                "font-size=\"16\" font-weight=\"600\" fill=\"#1c2733\">", as_text(title, 90), "</text>\n");
}

// The colours of errors: below 15 dB, below 30 dB, and above.
const char* color_of(double db) { return db < 15 ? "#c0392b" : db < 30 ? "#c98a1b" : "#1f8f68"; }

std::string bar(double x, double y, double height, const std::optional<double>& db, double scale, bool is_own) {
  const double shown = db ? std::clamp(*db, 0.0, kMostDb) : kMostDb;
  const std::string label = db ? concat(with_places(*db, 1), " dB") : "equal";
  return concat("<rect x=\"", at(x), "\" y=\"", at(y), "\" width=\"", at(std::max(1.0, shown * scale)), "\" height=\"",
                at(height), "\" fill=\"", color_of(db.value_or(kMostDb)), "\"", is_own ? "" : " fill-opacity=\"0.35\"",
                "><title>", is_own ? "own error: " : "with all layers before: ", label, "</title></rect>\n");
}

}  // namespace

std::string error_chart(const std::string& title, const std::vector<ErrorBar>& layers) {
  constexpr double kNames = 300, kBars = 420, kRow = 22, kTop = 78;
  const double scale = kBars / kMostDb, height = kTop + kRow * static_cast<double>(layers.size()) + 24;
  std::string out = opened(title, kNames + kBars + 90, height);
  out +=
      "<text x=\"16\" y=\"46\" fill=\"#51606e\">Signal-to-noise ratio in dB; a short bar is a large error. Dark: what "
      "the layer adds itself; light: with all layers before it.</text>\n";
  for (int db = 0; db <= static_cast<int>(kMostDb); db += 10) {
    const double x = kNames + db * scale;
    out += concat("<line x1=\"", at(x), "\" x2=\"", at(x), "\" y1=\"", at(kTop - 6), "\" y2=\"", at(height - 18),
                  "\" stroke=\"#dfe5ea\"/><text x=\"", at(x), "\" y=\"", at(kTop - 12),
                  "\" text-anchor=\"middle\" fill=\"#51606e\">", db, "</text>\n");
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    const double y = kTop + kRow * static_cast<double>(i);
    out += concat("<text x=\"", at(kNames - 10), "\" y=\"", at(y + 13), "\" text-anchor=\"end\" fill=\"#1c2733\">",
                  as_text(layers[i].name, 42), "</text>\n", bar(kNames, y + 3, 8, layers[i].own_db, scale, true),
                  bar(kNames, y + 11, 5, layers[i].all_db, scale, false));
  }
  return out + "</svg>\n";
}

Histogram histogram_of(const std::string& name, const Tensor& tensor) {
  Histogram out{name, concat(to_string(tensor.dtype()), ", ", tensor.numel(), " elements"), 0, 0, {}};
  constexpr size_t kBins = 64;
  const bool is_bytes = tensor.dtype() == DType::kS8 || tensor.dtype() == DType::kU8;
  const bool is_float = tensor.dtype() == DType::kF32 || tensor.dtype() == DType::kF64;
  if (tensor.numel() == 0 || (!is_bytes && !is_float)) return out;
  const Tensor numbers = Tensor::empty(tensor.sizes(), DType::kF64);
  numbers.copy_from(tensor);
  const std::span<const double> values = numbers.span<double>();
  double min = std::numeric_limits<double>::infinity(), max = -min;
  for (const double value : values)
    if (std::isfinite(value)) {
      min = std::min(min, value);
      max = std::max(max, value);
    }
  if (!(min <= max)) return out;
  if (is_bytes) {
    min = static_cast<double>(min_of(tensor.dtype()));
    max = min + 256;
  }
  out.min = min;
  out.max = is_bytes ? max - 1 : max;
  out.counts.assign(kBins, 0);
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    const double place = max > min ? (value - min) / (max - min) * kBins : 0;
    ++out.counts[std::min(kBins - 1, static_cast<size_t>(place))];
  }
  return out;
}

std::string histogram_chart(const std::string& title, const std::vector<Histogram>& histograms) {
  constexpr size_t kColumns = 3;
  constexpr double kWidth = 280, kHeight = 120, kTop = 44, kPlot = 70;
  const size_t rows = (histograms.size() + kColumns - 1) / kColumns;
  std::string out = opened(title, kWidth * kColumns + 16, kTop + kHeight * static_cast<double>(rows) + 8);
  for (size_t i = 0; i < histograms.size(); ++i) {
    const Histogram& h = histograms[i];
    const double x = 16 + kWidth * static_cast<double>(i % kColumns);
    const double y = kTop + kHeight * static_cast<double>(i / kColumns);
    out += concat("<text x=\"", at(x), "\" y=\"", at(y + 12), "\" fill=\"#1c2733\">", as_text(h.name, 40),
                  "</text>\n<text x=\"", at(x), "\" y=\"", at(y + 108), "\" font-size=\"10\" fill=\"#51606e\">",
                  as_text(h.note, 40), ", ", in_digits(h.min), " to ", in_digits(h.max), "</text>\n");
    const int64_t most = h.counts.empty() ? 0 : *std::max_element(h.counts.begin(), h.counts.end());
    const double base = y + 20 + kPlot,
                 step = (kWidth - 24) / static_cast<double>(std::max<size_t>(1, h.counts.size()));
    std::string path;
    for (size_t bin = 0; bin < h.counts.size(); ++bin) {
      if (h.counts[bin] == 0) continue;
      const double tall = kPlot * static_cast<double>(h.counts[bin]) / static_cast<double>(most);
      path += concat("M", at(x + static_cast<double>(bin) * step), " ", at(base), "v-", at(tall), "h", at(step), "v",
                     at(tall), "z");
    }
    out += concat("<path d=\"", path, "\" fill=\"#1f8f68\"/><line x1=\"", at(x), "\" x2=\"", at(x + kWidth - 24),
                  "\" y1=\"", at(base), "\" y2=\"", at(base), "\" stroke=\"#51606e\"/>\n");
  }
  return out + "</svg>\n";
}

}  // namespace qdq
