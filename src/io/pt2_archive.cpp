// Reads both layouts of .pt2 archives into one form.
#include "io/pt2_archive.h"

#include <algorithm>
#include <map>

#include "base/disk_blocks.h"
#include "base/memory.h"
#include "format/file_kind.h"
#include "format/zip.h"

namespace qdq {
namespace {

using format::ByteSpan;
using format::TorchTensor;
using format::ZipEntry;
using format::ZipReader;
using TensorMap = std::unordered_map<std::string, TorchTensor>;

const ZipEntry& member(const ZipReader& zip, const std::string& name) {
  const ZipEntry* entry = zip.find(name);
  QDQ_CHECK(entry != nullptr, kBadFile, "the .pt2 file has no member '", name,
            "', so it is incomplete; export it again");
  return *entry;
}

// Parsed JSON takes some twenty times its text; that of a network with ten thousand nodes has some twenty million
// characters.
constexpr size_t kMaxText = size_t{128} << 20;

Place::Json read_json(const ZipReader& zip, const std::string& name) {
  const ZipEntry& entry = member(zip, name);
  QDQ_CHECK(entry.size <= kMaxText, kUnsupported, name, " has ", entry.size, " bytes, qdq reads at most ", kMaxText,
            " of JSON");
  const format::ByteData data = zip.read(entry);
  return format::parse_json(data.text(), name);
}

TensorMap read_pickled(const ZipReader& zip, const std::string& name) {
  const std::shared_ptr<const format::ByteSource> data = zip.source_of(member(zip, name));
  TensorMap out;
  // torch.export.save writes nothing at all for a program without such tensors.
  if (data->size() == 0) return out;
  for (TorchTensor& tensor : format::read_torch_file(data, name, true)) {
    const std::string key = tensor.name;
    QDQ_CHECK(out.emplace(key, std::move(tensor)).second, kBadFile, name, " has the tensor '", key, "' twice");
  }
  return out;
}

TorchTensor read_one_pickled(const ZipReader& zip, const std::string& name) {
  std::vector<TorchTensor> found = format::read_torch_file(zip.source_of(member(zip, name)), name, true);
  QDQ_CHECK(found.size() == 1, kBadFile, name, " holds ", found.size(), " tensors, wanted one");
  return std::move(found[0]);
}

// {"dtype": 7, "sizes": [{"as_int": 3}], "strides": [..], "storage_offset": {"as_int": 0}, "layout": 7, ...}
struct PayloadMeta {
  DType dtype;
  Shape sizes, strides;
  int64_t offset;
  bool requires_grad;
};

PayloadMeta payload_meta(const Place& meta) {
  const auto integers = [](const Place& list) {
    Shape out;
    for (size_t i = 0; i < list.size(); ++i) out.push_back(list[i]["as_int"].integer());
    return out;
  };
  const std::optional<DType> dtype = dtype_from_number(meta["dtype"].integer());
  if (!dtype)
    fail(ErrorCode::kUnsupported, meta.path(), " has the data type number ", meta["dtype"].integer(),
         ", which qdq does not have");
  return {*dtype, integers(meta["sizes"]), integers(meta["strides"]), meta["storage_offset"]["as_int"].integer(),
          meta["requires_grad"].boolean()};
}

// The tensors of one folder of the archive layout: raw bytes of storages, and a config that says which tensor lies
// where.
TensorMap read_payloads(const ZipReader& zip, const std::string& folder, const std::string& config_name) {
  const Place::Json json = read_json(zip, folder + config_name);
  TensorMap out;
  // By file, so that no number of names makes more bytes of it; bools apart, because theirs are made 0 and 1.
  std::map<std::pair<std::string, bool>, std::shared_ptr<Storage>> storages;
  std::map<std::string, TorchTensor> pickles;
  Place(json, folder + config_name + ":")["config"].for_each_member([&](const std::string& name, const Place& entry) {
    const std::string path = folder + entry["path_name"].string();
    QDQ_CHECK(entry.find("tensor_meta"), kUnsupported, entry.path(),
              " is not a tensor; custom objects are not supported");
    TorchTensor tensor{name, {}, entry["is_param"].boolean(), false};
    if (entry["use_pickle"].boolean()) {
      const auto [pickle, is_new] = pickles.try_emplace(path);
      if (is_new) pickle->second = read_one_pickled(zip, path);
      tensor.tensor = pickle->second.tensor;
      tensor.requires_grad = pickle->second.requires_grad;
    } else {
      const PayloadMeta meta = payload_meta(entry["tensor_meta"]);
      const auto [storage, is_new] = storages.try_emplace({path, meta.dtype == DType::kBool});
      const std::string what = "the weight '" + name + "' in " + path;
      try {
        if (is_new) storage->second = format::read_storage(zip, member(zip, path), meta.dtype == DType::kBool);
        // PyTorch writes no bytes at all for a tensor without elements.
        tensor.tensor =
            Tensor(storage->second, meta.dtype, meta.sizes, meta.strides, numel_of(meta.sizes) == 0 ? 0 : meta.offset);
      } catch (const Error& error) {
        if (error.code != ErrorCode::kInvalidArgument) throw;
        fail(ErrorCode::kBadFile, what, " does not fit its bytes: ", error.message);
      }
      tensor.requires_grad = meta.requires_grad;
    }
    QDQ_CHECK(out.emplace(name, std::move(tensor)).second, kBadFile, folder, config_name, " has the tensor '", name,
              "' twice");
  });
  return out;
}

// A legacy pickle if the archive has one (PyTorch 2.8), else raw storages.
TensorMap read_folder(const ZipReader& zip, const std::string& folder, const std::string& model,
                      const std::string& kind) {
  const std::string legacy = folder + model + ".pt";
  if (zip.find(legacy) != nullptr) return read_pickled(zip, legacy);
  return read_payloads(zip, folder, model + "_" + kind + "_config.json");
}

// "name/archive_format" gives "name/"; nothing if the zip is of another layout.
std::optional<std::string> archive_root(const ZipReader& zip) {
  constexpr std::string_view kMarker = "archive_format";
  for (const ZipEntry& entry : zip.entries()) {
    const std::string_view name = entry.name;
    if (!name.ends_with(kMarker)) continue;
    const std::string_view root = name.substr(0, name.size() - kMarker.size());
    if (root.empty() || root.find('/') == root.size() - 1) return std::string(root);
  }
  return std::nullopt;
}

Pt2Archive read_folders(const ZipReader& zip, const std::string& root) {
  const std::string kind(zip.read(root + "archive_format").text());
  QDQ_CHECK(kind == "pt2", kUnsupported, "the archive says that it holds '", kind.substr(0, 40), "', wanted 'pt2'");
  const std::string version(zip.read(root + "archive_version").text());
  QDQ_CHECK(version == "0", kUnsupported, "the .pt2 archive has version '", version.substr(0, 40),
            "', qdq reads version 0");
  const std::string models = root + "models/";
  std::vector<std::string> names;
  for (const ZipEntry& entry : zip.entries())
    if (entry.name.starts_with(models) && entry.name.ends_with(".json"))
      names.push_back(entry.name.substr(models.size(), entry.name.size() - models.size() - 5));
  QDQ_CHECK(!names.empty(), kUnsupported,
            "the .pt2 archive holds no exported program (models/*.json), perhaps only compiled code; write it with "
            "torch.export.save");
  QDQ_CHECK(names.size() == 1, kUnsupported, "the .pt2 archive holds ", names.size(), " programs ('", names[0], "', '",
            names[1], "', ...), wanted one");
  Pt2Archive out;
  out.program_name = models + names[0] + ".json";
  out.program = read_json(zip, out.program_name);
  out.state = read_folder(zip, root + "data/weights/", names[0], "weights");
  out.constants = read_folder(zip, root + "data/constants/", names[0], "constants");
  return out;
}

}  // namespace

Pt2Archive read_pt2_archive(std::shared_ptr<const format::ByteSource> source) {
  QDQ_CHECK(source->size() > 0, kBadFile, "the .pt2 file is empty; export the program again with torch.export.save");
  QDQ_CHECK(source->read(0, std::min<uint64_t>(source->size(), 2)).text() == "PK", kBadFile,
            "this is not a .pt2 file, which is a zip archive, but ", kind_of_file(*source),
            "; wanted a file of torch.export.save");
  const ZipReader zip(source, "the .pt2 file");
  // Weights are copied out of the archive, or inflated, and those of a large one to disk; the inputs of the export are
  // not read.
  uint64_t unpacked = 0;
  for (const ZipEntry& entry : zip.entries())
    if (!goes_to_disk(static_cast<size_t>(source->size())) && entry.name.find("example_inputs") == std::string::npos &&
        entry.name.find("sample_inputs") == std::string::npos)
      unpacked = std::min(unpacked + entry.size, uint64_t{1} << 62);
  check_memory_of_file(unpacked, "loading the .pt2 file");
  if (const std::optional<std::string> root = archive_root(zip)) return read_folders(zip, *root);
  if (zip.find(kProgramMember) == nullptr) {
    const bool is_torch_save = std::any_of(zip.entries().begin(), zip.entries().end(),
                                           [](const ZipEntry& entry) { return entry.name.ends_with("/data.pkl"); });
    QDQ_CHECK(
        !is_torch_save, kUnsupported,
        "the file holds weights or a TorchScript module, not an exported program; write it with torch.export.save");
    fail(ErrorCode::kBadFile, "the zip archive has no member '", kProgramMember,
         "', so it is not a .pt2 file; wanted a file of torch.export.save");
  }
  QDQ_CHECK(
      zip.find("serialized_state_dict.json") == nullptr, kUnsupported,
      "the .pt2 file was written by PyTorch 2.1 ('serialized_state_dict.json'); export the model with PyTorch 2.6 "
      "or newer");
  Pt2Archive out;
  out.program_name = kProgramMember;
  out.program = read_json(zip, out.program_name);
  out.state = read_pickled(zip, std::string(kStateMember));
  out.constants = read_pickled(zip, std::string(kConstantsMember));
  return out;
}

}  // namespace qdq
