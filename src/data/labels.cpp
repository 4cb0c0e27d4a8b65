// The labels of samples: from arrays, lines of a .csv, folders, or files beside the samples.
#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "data/data.h"
#include "data/file_names.h"
#include "format/npz.h"
#include "tensor/strings.h"

namespace qdq {

namespace {

std::vector<int64_t> integers_of(const Tensor& labels, const std::string& path) {
  QDQ_CHECK(is_integral(labels.dtype()), kInvalidArgument, path, " holds ", to_string(labels.dtype()),
            "; labels must be integers: save them with .astype(\"int64\")");
  QDQ_CHECK(labels.dim() > 0 && labels.numel() == labels.size(0), kInvalidArgument, path, " holds ",
            to_string(labels.dtype()), to_string(labels.sizes()),
            "; labels are one class for each sample, [samples]; of rows with a 1 at the class (one-hot) save the "
            "argmax along axis 1");
  const Tensor wide = labels.to(DType::kS64).contiguous();
  return {wide.span<int64_t>().begin(), wide.span<int64_t>().end()};
}

// `file,label`, with columns behind it, or `file,name,label`.
struct CsvLine {
  std::vector<std::string> files;  // what the file may be called: the first field, or all in front of the last comma
  int64_t label;
};

struct Csv {
  std::vector<CsvLine> lines;
  std::string heading;  // the first line, if it has no label
  std::vector<std::string> heading_files;
};

std::optional<int64_t> integer_of(std::string_view text) {
  while (!text.empty() && text[0] == ' ') text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

// A class by its number, or by its name where names are known.
std::optional<int64_t> class_of(std::string_view text, const Classes& classes) {
  if (const auto number = integer_of(text)) return number;
  while (!text.empty() && text[0] == ' ') text.remove_prefix(1);
  const auto at = std::find(classes.names.begin(), classes.names.end(), text);
  if (at == classes.names.end()) return {};
  return at - classes.names.begin();
}

// The fields of a line; one between quotes may hold commas, and a quote as two.
std::vector<std::string> fields_of(std::string_view line) {
  std::vector<std::string> fields(1);
  bool is_quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool is_pair = is_quoted && line.substr(i, 2) == "\"\"";
    if (line[i] == ',' && !is_quoted) fields.emplace_back();
    else if (line[i] != '"' || is_pair) fields.back() += line[i];
    else is_quoted = !is_quoted;
    if (is_pair) ++i;
  }
  return fields;
}

// The column that a heading calls label; 0 if there is none.
size_t label_column(const std::vector<std::string>& heading) {
  constexpr std::string_view kLabel = "label";
  for (size_t i = 1; i < heading.size(); ++i)
    if (heading[i].size() == kLabel.size() && ends_with(heading[i], kLabel)) return i;
  return 0;
}

Csv read_csv(std::string_view text, const std::string& path, const Classes& classes) {
  Csv csv;
  size_t column = 0, columns = 0;                     // where a heading has the label, and how many it has
  constexpr std::string_view kMark = "\xef\xbb\xbf";  // of UTF-8
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  for (size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty()) continue;
    const std::vector<std::string> fields = fields_of(line);
    std::optional<int64_t> label;
    std::vector<std::string> files = {fields[0]};
    if (const size_t count = fields.size(); count > 1) {
      const bool is_told = column > 0 && count == columns;
      label = class_of(fields[is_told ? column : 1], classes);
      if (!label && !is_told) label = class_of(fields.back(), classes);
      if (count > 2) files.emplace_back(line.substr(0, line.rfind(',')));
    }
    if (!label && number == 1 && !integer_of(line)) {
      csv.heading = line.substr(0, 60);
      csv.heading_files = std::move(files);
      column = label_column(fields);
      columns = fields.size();
      continue;
    }
    QDQ_CHECK(label, kBadFile, path, ", line ", number, ": found \"", line.substr(0, 60),
              "\", wanted file,label with the label as a number",
              classes.names.empty() ? ", or as a name of a class that --classes FILE.txt has"
                                    : concat(", or as one of the ", classes.names.size(), " names of classes"));
    csv.lines.push_back({std::move(files), *label});
  }
  return csv;
}

bool has_files(const Data& data) { return !data.file_of(0).empty(); }

// What lines say of files, looked up by what these are called.
class LabelsByFile {
 public:
  // `first`: one of the files, which tells what folders above the data's the lines name.
  LabelsByFile(const Csv& csv, const std::string& first) {
    for (const CsvLine& line : csv.lines)
      for (const std::string& file : line.files) {
        Label& label = by_name_.try_emplace(file, Label{line.label, true}).first->second;
        label.is_one = label.is_one && label.number == line.label;
      }
    if (csv.lines.empty() || find(first)) return;
    const std::string& path = csv.lines[0].files[0];
    for (size_t slash = path.find('/'); slash != std::string::npos && above_.empty(); slash = path.find('/', slash + 1))
      if (by_name_.contains(path.substr(0, slash + 1) + first)) above_ = path.substr(0, slash + 1);
  }

  struct Label {
    int64_t number;
    bool is_one;  // all lines of the file agree
  };
  // By the path in the data's folder, by the name, or by a path that begins above. Null if no line is about the file.
  const Label* find(const std::string& file) const {
    auto found = by_name_.find(file);
    if (found == by_name_.end()) found = by_name_.find(std::string_view(file).substr(file.rfind('/') + 1));
    if (found == by_name_.end()) found = by_name_.find(above_ + file);
    return found == by_name_.end() ? nullptr : &found->second;
  }

 private:
  std::unordered_map<std::string_view, Label> by_name_;
  std::string above_;
};

std::vector<int64_t> labels_of_files(const Csv& csv, const Data& data, const std::string& path) {
  const LabelsByFile by_file(csv, data.file_of(0));
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < data.num_samples(); ++i) {
    const std::string file = data.file_of(i);
    const LabelsByFile::Label* found = by_file.find(file);
    const bool is_heading = std::ranges::find(csv.heading_files, file) != csv.heading_files.end();
    QDQ_CHECK(found || !is_heading, kBadFile, path, ", line 1: found \"", csv.heading,
              "\", which is no heading, as the data has ", file, "; wanted a number for its label, or a name that ",
              "--classes FILE.txt has");
    QDQ_CHECK(found, kInvalidArgument, path, " has no label for ", file, "; wanted a line ", file,
              ",CLASS with the number of its class");
    QDQ_CHECK(found->is_one, kInvalidArgument, path, " has lines with different labels for ", file,
              "; leave one of them");
    labels.push_back(found->number);
  }
  return labels;
}

// The number that a folder is named by.
std::optional<int64_t> number_of(std::string_view name) {
  const auto value = integer_of(name);
  return value && *value >= 0 ? value : std::nullopt;
}

// The class that each folder stands for.
std::unordered_map<std::string_view, int64_t> classes_of_folders(const std::vector<std::string>& folders,
                                                                 Classes& classes) {
  std::unordered_map<std::string_view, int64_t> out;
  if (!classes.names.empty()) {
    for (const std::string& folder : folders) {
      const auto at = std::find(classes.names.begin(), classes.names.end(), folder);
      QDQ_CHECK(at != classes.names.end(), kInvalidArgument, "the folder ", folder, " has the name of none of the ",
                classes.names.size(), " classes (", classes.names[0],
                ", ...); wanted labels in a .csv, or folders named after classes");
      out[folder] = at - classes.names.begin();
    }
  } else if (std::all_of(folders.begin(), folders.end(), [](const std::string& folder) { return number_of(folder); })) {
    for (const std::string& folder : folders) out[folder] = *number_of(folder);
  } else {
    QDQ_CHECK(!classes.count || *classes.count == static_cast<int64_t>(folders.size()), kInvalidArgument,
              "the images lie in ", folders.size(), " folders (", folders[0], ", ...) but the model has ",
              *classes.count,
              " classes apart, so their order does not say which is which; give the names of all classes (classes.txt, "
              "one on a line)");
    for (size_t i = 0; i < folders.size(); ++i) out[folders[i]] = static_cast<int64_t>(i);
    classes.names = folders;
  }
  return out;
}

std::vector<int64_t> labels_of_folders(const Data& data, Classes& classes) {
  QDQ_CHECK(has_files(data), kInvalidArgument,
            "labels from folders need a folder of images; arrays take an .npy, .npz or .csv of labels");
  std::vector<int64_t> labels;
  std::unordered_map<std::string_view, int64_t> by_folder;
  if (!data.folders().empty()) by_folder = classes_of_folders(data.folders(), classes);
  for (int64_t i = 0; i < data.num_samples(); ++i) {
    const std::string file = data.file_of(i);
    const auto found = by_folder.find(front_of(file));
    QDQ_CHECK(found != by_folder.end(), kInvalidArgument, file,
              " lies in no folder that names its class; wanted CLASS/", file);
    labels.push_back(found->second);
  }
  return labels;
}

// Those of WebDataset: a member KEY.cls with the number of the class beside KEY.jpg.
std::vector<int64_t> labels_of_members(const Data& data) {
  QDQ_CHECK(has_files(data), kInvalidArgument,
            "labels from .cls files need a .tar or a folder of images; arrays take an .npy, .npz or .csv of labels");
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < data.num_samples(); ++i) {
    const std::string file = data.file_of(i);
    const std::string name = file.substr(0, file.rfind('.')) + ".cls";
    const format::Bytes bytes = data.read(name);
    std::string_view text = format::text_of(bytes);
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
    const auto label = number_of(text);
    QDQ_CHECK(label, kBadFile, name, " holds \"", text.substr(0, 60), "\", wanted the number of a class");
    labels.push_back(*label);
  }
  return labels;
}

}  // namespace

Classes read_classes(const std::string& path, std::optional<int64_t> count, Files& disk) {
  Classes classes{count, {}};
  if (path.empty()) return classes;
  const auto bytes = disk.read(path);
  std::string_view text = format::text_of(bytes);
  QDQ_CHECK(is_utf8(text), kBadFile, path, " is not text in UTF-8; wanted the name of a class on each line");
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (!line.empty()) classes.names.emplace_back(line);
  }
  QDQ_CHECK(!count || *count == static_cast<int64_t>(classes.names.size()), kInvalidArgument, path, " names ",
            classes.names.size(), " classes, but the model has ", *count,
            " apart; wanted one name on each line, in the order of the outputs");
  return classes;
}

std::string name_problem_of_labels(const std::string& path) {
  for (const char* ending : {".npy", ".npz", ".csv"})
    if (ends_with(path, ending)) return "";
  if (path == "folders" || path == "cls") return "";
  return path + " is not a file of labels; wanted .npy, .npz or .csv, or one of the words folders and cls";
}

std::vector<int64_t> read_labels(const std::string& path, const Data& data, Classes& classes, Files& disk) {
  std::vector<int64_t> labels;
  std::string heading;
  const bool by_file = path == "folders" || path == "cls" || (ends_with(path, ".csv") && has_files(data));
  if (path == "folders") {
    labels = labels_of_folders(data, classes);
  } else if (path == "cls") {
    labels = labels_of_members(data);
  } else if (const auto bytes = disk.read(path); ends_with(path, ".csv")) {
    const Csv csv = read_csv(format::text_of(bytes), path, classes);
    heading = csv.heading;
    if (by_file) labels = labels_of_files(csv, data, path);
    else
      for (const CsvLine& line : csv.lines) labels.push_back(line.label);
  } else if (ends_with(path, ".npz")) {
    const auto arrays = format::read_npz(bytes, path);
    const auto named =
        std::find_if(arrays.begin(), arrays.end(), [](const auto& array) { return array.name == "labels"; });
    QDQ_CHECK(named != arrays.end() || arrays.size() == 1, kInvalidArgument, path, " holds ", arrays.size(),
              " arrays; wanted one, or one named labels");
    labels = integers_of((named != arrays.end() ? *named : arrays[0]).tensor, path);
  } else {
    const std::string problem = name_problem_of_labels(path);
    QDQ_CHECK(problem.empty(), kInvalidArgument, problem);
    labels = integers_of(format::read_npy(bytes, path), path);
  }
  // Lists have also the labels of the samples that the limit leaves out.
  if (!by_file) {
    const int64_t samples = data.num_samples(), count = samples == 0 ? 0 : data.place_of(samples - 1) + 1;
    const int64_t found = std::ssize(labels), all = data.num_samples_in_all();
    const bool is_front = count == samples;  // the limit takes the first ones
    QDQ_CHECK(found == all || (is_front && found == samples), kInvalidArgument, path, " holds ", found,
              found == 1 ? " label for " : " labels for ", all, " samples",
              all == samples ? "" : concat(", of which --limit takes ", samples),
              "; wanted one for each, in their order",
              heading.empty() ? "" : concat(" (\"", heading, "\" counts as a heading)"));
    for (int64_t i = 0; i < samples; ++i)
      labels[static_cast<size_t>(i)] = labels[static_cast<size_t>(data.place_of(i))];
    labels.resize(static_cast<size_t>(samples));
  }
  for (size_t i = 0; i < labels.size(); ++i)
    QDQ_CHECK(labels[i] >= 0 && (!classes.count || labels[i] < *classes.count), kInvalidArgument, "the label of ",
              has_files(data) ? data.file_of(static_cast<int64_t>(i)) : concat("sample ", i), " is ", labels[i],
              classes.count ? concat("; the model has classes 0 to ", *classes.count - 1)
                            : std::string("; classes are counted from 0"));
  return labels;
}

}  // namespace qdq
