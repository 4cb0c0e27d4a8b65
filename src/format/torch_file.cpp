#include "format/torch_file.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "format/pickle.h"
#include "format/zip.h"

namespace qdq::format {

namespace {

using Kind = PickleValue::Kind;

constexpr size_t kMaxVisits = 2'000'000, kMaxName = 4096;

struct StorageType {
  std::string_view name;
  DType dtype;
};
constexpr StorageType kStorageTypes[] = {
    {"torch.ByteStorage", DType::kU8},          {"torch.CharStorage", DType::kS8},
    {"torch.ShortStorage", DType::kS16},        {"torch.IntStorage", DType::kS32},
    {"torch.LongStorage", DType::kS64},         {"torch.HalfStorage", DType::kF16},
    {"torch.FloatStorage", DType::kF32},        {"torch.DoubleStorage", DType::kF64},
    {"torch.BoolStorage", DType::kBool},        {"torch.BFloat16Storage", DType::kBF16},
    {"torch.ComplexFloatStorage", DType::kC64},
};
constexpr std::string_view kUntypedStorage = "torch.storage.UntypedStorage", kOrderedDict = "collections.OrderedDict",
                           kParameterType = "torch.nn.parameter.Parameter", kTensorType = "torch.Tensor";
constexpr std::string_view kTensorV1 = "torch._utils._rebuild_tensor", kTensorV2 = "torch._utils._rebuild_tensor_v2",
                           kTensorV3 = "torch._utils._rebuild_tensor_v3";
constexpr std::string_view kParameter = "torch._utils._rebuild_parameter",
                           kParameterWithState = "torch._utils._rebuild_parameter_with_state",
                           kFromType = "torch._tensor._rebuild_from_type_v2";
constexpr std::string_view kKnown[] = {kUntypedStorage, kOrderedDict, kParameterType, kTensorType,         kTensorV1,
                                       kTensorV2,       kTensorV3,    kParameter,     kParameterWithState, kFromType};

const StorageType* storage_type(std::string_view name) {
  const auto* end = std::end(kStorageTypes);
  const auto* at =
      std::find_if(std::begin(kStorageTypes), end, [&](const StorageType& type) { return type.name == name; });
  return at == end ? nullptr : at;
}

// Of a global "torch.float32".
std::optional<DType> dtype_of_global(const std::string& name) {
  return name.starts_with("torch.") ? dtype_from_name(name) : std::nullopt;
}

bool is_known_global(const std::string& name) {
  return storage_type(name) || dtype_of_global(name) ||
         std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown);
}

// Any other value than 0 and 1 in a bool is undefined behaviour.
void make_bools(Storage& storage) {
  for (std::byte& b : std::span(storage.data(), storage.size())) b = b == std::byte{0} ? std::byte{0} : std::byte{1};
}

Tensor view_of(std::shared_ptr<Storage> storage, DType dtype, Shape sizes, Shape strides, int64_t offset,
               const std::string& what) {
  try {
    return Tensor(std::move(storage), dtype, std::move(sizes), std::move(strides), offset);
  } catch (const Error& error) {
    throw Error(ErrorCode::kBadFile, what + ": " + error.message);
  }
}

class TorchReader {
 public:
  TorchReader(std::shared_ptr<const ByteSource> source, const std::string& what, bool is_verified)
      : what_(what), archive_(open(std::move(source), is_verified)) {
    const ZipEntry* data = nullptr;
    for (const ZipEntry& entry : archive_.entries())
      if (entry.name.ends_with("/data.pkl") && entry.name.find('/') == entry.name.size() - 9) data = &entry;
    QDQ_CHECK(data, kBadFile, what_, ": the archive has no member 'archive/data.pkl', so torch.save did not write it");
    prefix_ = data->name.substr(0, data->name.size() - 8);
    QDQ_CHECK(!archive_.find(prefix_ + "constants.pkl"), kUnsupported, what_,
              ": this is a TorchScript archive; export the model with torch.export instead");
    if (const ZipEntry* order = archive_.find(prefix_ + "byteorder"))
      QDQ_CHECK(archive_.read(*order).text() == "little", kUnsupported, what_,
                ": the file was written on a big-endian machine; save it again on another");
    pickle_ = read_pickle(archive_.read(*data).bytes(), what_ + ": " + data->name);
    for (const PickleValue& value : pickle_.values())
      QDQ_CHECK(!value.is(Kind::kGlobal) || is_known_global(value.text), kUnsupported, what_, ": the pickle names '",
                value.text,
                "', which a dictionary of dense tensors does not need; it was refused and nothing was"
                " executed");
  }

  std::vector<TorchTensor> read() {
    visit(*pickle_.root, "");
    return std::move(out_);
  }

 private:
  ZipReader open(std::shared_ptr<const ByteSource> source, bool is_verified) const {
    QDQ_CHECK(source->size() < 2 || source->read(0, 1).bytes()[0] != std::byte{0x80}, kUnsupported, what_,
              ": this is a bare pickle, as torch.save wrote it before PyTorch 1.6;"
              " load it with PyTorch and save it again");
    return ZipReader(std::move(source), what_, is_verified);
  }

  template <class... Parts> [[noreturn]] void bad(const Parts&... parts) const {
    fail(ErrorCode::kBadFile, what_, ": ", parts...);
  }

  void visit(const PickleValue& value, const std::string& name) {
    if (++visits_ > kMaxVisits) bad("the pickle holds more than ", kMaxVisits, " values");
    if (name.size() > kMaxName) bad("a tensor has a name of more than ", kMaxName, " bytes");
    const bool ordered = value.is_call_of(kOrderedDict);
    if (ordered && !value.args->items.empty()) bad("the OrderedDict '", name, "' is made with arguments");
    const auto below = [&](const std::string& key) { return name.empty() ? key : name + "." + key; };
    if (value.is(Kind::kDict) || ordered) {
      for (const auto& [key, item] : value.entries) {
        if (!key->is(Kind::kStr) && !key->is(Kind::kInt)) bad("a key of the dictionary '", name, "' is not a string");
        visit(*item, below(key->is(Kind::kStr) ? key->text : std::to_string(key->integer)));
      }
    } else if (value.is(Kind::kList) || value.is(Kind::kTuple)) {
      for (size_t i = 0; i < value.items.size(); ++i) visit(*value.items[i], below(std::to_string(i)));
    } else {
      QDQ_CHECK(value.is(Kind::kObject), kUnsupported, what_, ": '", name, "' is not a tensor");
      if (!names_.insert(name).second) bad("two tensors have the name '", name, "'");
      out_.push_back(tensor(value, name));
    }
  }

  TorchTensor tensor(const PickleValue& object, const std::string& name) {
    if (!object.callee->is(Kind::kGlobal)) bad("'", name, "' is made by something other than a named function");
    return rebuild(object.callee->text, object.args->items, name);
  }

  // What the function `callee` of torch would make of the arguments (torch/_utils.py, torch/_tensor.py).
  TorchTensor rebuild(const std::string& callee, const std::vector<const PickleValue*>& args, const std::string& name) {
    const auto need = [&](size_t count) {
      if (args.size() < count) bad("'", name, "': ", callee, " has ", args.size(), " arguments, wanted ", count);
    };
    if (callee == kFromType) {
      need(3);
      const bool parameter = args[1]->is_global(kParameterType);
      QDQ_CHECK(args[0]->is(Kind::kGlobal) && args[0]->text != kFromType && args[2]->is(Kind::kTuple) &&
                    (parameter || args[1]->is_global(kTensorType)),
                kUnsupported, what_, ": '", name,
                "' is of a subclass of torch.Tensor; only tensors and parameters are read");
      TorchTensor out = rebuild(args[0]->text, args[2]->items, name);
      out.is_parameter = out.is_parameter || parameter;
      return out;
    }
    if (callee == kParameter || callee == kParameterWithState) {
      need(2);
      if (!args[0]->is(Kind::kObject)) bad("the parameter '", name, "' is not made of a tensor");
      const PickleValue* callee_of_data = args[0]->callee;
      if (!callee_of_data->is(Kind::kGlobal) || callee_of_data->text == kParameter ||
          callee_of_data->text == kParameterWithState)
        bad("the parameter '", name, "' is not made of a tensor");
      TorchTensor out = tensor(*args[0], name);
      out.is_parameter = true;
      out.requires_grad = boolean(*args[1], name);
      return out;
    }
    QDQ_CHECK(callee == kTensorV1 || callee == kTensorV2 || callee == kTensorV3, kUnsupported, what_, ": '", name,
              "' is made by ", callee, ", which does not return a dense tensor");
    need(callee == kTensorV1 ? 4 : callee == kTensorV2 ? 6 : 7);
    const size_t metadata = callee == kTensorV3 ? 7 : 6;
    QDQ_CHECK(args.size() <= metadata || (args[metadata]->is(Kind::kDict) && args[metadata]->entries.empty()) ||
                  args[metadata]->is(Kind::kNone),
              kUnsupported, what_, ": '", name, "' is a conjugated or negated view; clone it before saving");
    std::optional<DType> dtype;
    if (callee == kTensorV3) {
      dtype = args[6]->is(Kind::kGlobal) ? dtype_of_global(args[6]->text) : std::nullopt;
      if (!dtype) bad("the tensor '", name, "' has no data type that qdq knows");
    }
    if (!args[1]->is(Kind::kInt)) bad("the offset of the tensor '", name, "' is not an integer");
    TorchTensor out{name, {}, false, args.size() > 4 && boolean(*args[4], name)};
    out.tensor = view(*args[0], dtype, args[1]->integer, extents(*args[2], name), extents(*args[3], name), name);
    return out;
  }

  bool boolean(const PickleValue& value, const std::string& name) const {
    if (!value.is(Kind::kBool)) bad("requires_grad of the tensor '", name, "' is not a bool");
    return value.integer != 0;
  }

  Shape extents(const PickleValue& value, const std::string& name) const {
    if (!value.is(Kind::kTuple) || value.items.size() > 64)
      bad("the sizes or strides of the tensor '", name, "' are not a tuple");
    Shape out;
    for (const PickleValue* item : value.items) {
      if (!item->is(Kind::kInt)) bad("a size or stride of the tensor '", name, "' is not an integer");
      out.push_back(item->integer);
    }
    return out;
  }

  // A persistent id is ("storage", type, key, device, element count) (torch/serialization.py, persistent_load).
  Tensor view(const PickleValue& reference, std::optional<DType> dtype, int64_t offset, Shape sizes, Shape strides,
              const std::string& name) {
    const PickleValue* id = reference.is(Kind::kPersistentId) ? reference.args : nullptr;
    if (!id || !id->is(Kind::kTuple) || id->items.size() < 5 || !id->items[0]->is(Kind::kStr) ||
        id->items[0]->text != "storage" || !id->items[1]->is(Kind::kGlobal) || !id->items[2]->is(Kind::kStr) ||
        !id->items[4]->is(Kind::kInt))
      bad("the tensor '", name, "' refers to no storage");
    const StorageType* type = storage_type(id->items[1]->text);
    if (!type && id->items[1]->text != kUntypedStorage)
      bad("the tensor '", name, "' has a storage of type ", id->items[1]->text);
    if (!dtype) dtype = type ? type->dtype : DType::kU8;
    const std::string& key = id->items[2]->text;
    std::shared_ptr<Storage>& storage = storages_[key];
    if (!storage) {
      const ZipEntry* entry = archive_.find(prefix_ + "data/" + key);
      if (!entry) bad("the member '", prefix_, "data/", key, "' is missing");
      storage = read_storage(archive_, *entry, false);
    }
    const int64_t count = id->items[4]->integer;
    const size_t capacity = storage->size() / (type ? size_of(type->dtype) : 1);
    if (count < 0 || static_cast<uint64_t>(count) > capacity)
      bad("the storage '", key, "' of the tensor '", name, "' should have ", count, " elements, found ", capacity);
    if (*dtype == DType::kBool && bools_.insert(storage.get()).second) make_bools(*storage);
    return view_of(storage, *dtype, std::move(sizes), std::move(strides), offset,
                   what_ + ": the tensor '" + name + "'");
  }

  const std::string& what_;
  ZipReader archive_;
  std::string prefix_;  // "archive/"
  Pickle pickle_;
  std::unordered_map<std::string, std::shared_ptr<Storage>> storages_;
  std::unordered_set<const Storage*> bools_;
  std::unordered_set<std::string> names_;
  std::vector<TorchTensor> out_;
  size_t visits_ = 0;
};

class TorchWriter {
 public:
  Parts write(std::span<const TorchTensor> tensors) {
    PickleValue* root = pickle_.add(Kind::kDict);
    std::unordered_set<std::string_view> names;
    for (const TorchTensor& entry : tensors) {
      QDQ_CHECK(names.insert(entry.name).second, kInvalidArgument, "two tensors have the name '", entry.name, "'");
      QDQ_CHECK(entry.tensor.defined(), kInvalidArgument, "the tensor '", entry.name,
                "' is undefined and cannot be saved");
      root->entries.emplace_back(pickle_.str(entry.name), value(entry));
    }
    pickle_.root = root;
    ZipWriter archive({64, false});
    const Bytes pickle = write_pickle(pickle_);
    archive.add("archive/data.pkl", pickle);
    archive.add("archive/byteorder", bytes_of("little"));
    constexpr size_t kSmall = 4096;  // cheaper to copy than to keep apart
    for (size_t i = 0; i < storages_.size(); ++i) {
      const ByteSpan bytes(storages_[i]->data(), storages_[i]->size());
      const std::string name = "archive/data/" + std::to_string(i);
      if (bytes.size() <= kSmall) {
        archive.add(name, bytes);
        continue;
      }
      Parts part;
      part.add(storages_[i], bytes);
      archive.add_parts(name, part);
    }
    archive.add("archive/version", bytes_of("3\n"));
    return archive.finish_parts();
  }

 private:
  const PickleValue* global(std::string_view name) {
    const PickleValue*& out = globals_[std::string(name)];
    if (!out) out = pickle_.global(std::string(name));
    return out;
  }

  const PickleValue* extents(const Shape& shape) {
    std::vector<const PickleValue*> items;
    for (const int64_t extent : shape) items.push_back(pickle_.integer(extent));
    return pickle_.tuple(std::move(items));
  }

  const PickleValue* hooks() { return pickle_.call(global(kOrderedDict), {}); }

  const PickleValue* value(const TorchTensor& entry) {
    const Tensor& tensor = entry.tensor;
    const auto* end = std::end(kStorageTypes);
    const auto* type =
        std::find_if(std::begin(kStorageTypes), end, [&](const StorageType& t) { return t.dtype == tensor.dtype(); });
    // Parameters carry requires_grad themselves; the tensor inside does not.
    const PickleValue* requires_grad = pickle_.boolean(entry.requires_grad && !entry.is_parameter);
    std::vector<const PickleValue*> args = {storage(tensor, type == end ? nullptr : type),
                                            pickle_.integer(tensor.storage_offset()),
                                            extents(tensor.sizes()),
                                            extents(tensor.strides()),
                                            requires_grad,
                                            hooks()};
    // uint16 came after typed storages were given up.
    if (type == end) args.push_back(global("torch." + std::string(to_string(tensor.dtype()))));
    const PickleValue* out = pickle_.call(global(type == end ? kTensorV3 : kTensorV2), std::move(args));
    if (!entry.is_parameter) return out;
    return pickle_.call(global(kParameter), {out, pickle_.boolean(entry.requires_grad), hooks()});
  }

  const PickleValue* storage(const Tensor& tensor, const StorageType* type) {
    const auto [at, is_new] = keys_.emplace(tensor.storage().get(), storages_.size());
    if (is_new) storages_.push_back(tensor.storage());
    const std::string key = std::to_string(at->second);
    const PickleValue*& out = references_[key + (type ? std::string(type->name) : "")];
    if (out) return out;
    const size_t count = tensor.storage()->size() / (type ? size_of(type->dtype) : 1);
    PickleValue* id = pickle_.add(Kind::kPersistentId);
    id->args = pickle_.tuple({text("storage"), global(type ? type->name : kUntypedStorage), pickle_.str(key),
                              text("cpu"), pickle_.integer(static_cast<int64_t>(count))});
    out = id;
    return out;
  }

  const PickleValue* text(std::string_view value) {
    const PickleValue*& out = texts_[value];
    if (!out) out = pickle_.str(std::string(value));
    return out;
  }

  Pickle pickle_;
  std::unordered_map<std::string_view, const PickleValue*> texts_;
  std::unordered_map<std::string, const PickleValue*> references_;
  std::unordered_map<const Storage*, size_t> keys_;
  std::vector<std::shared_ptr<Storage>> storages_;
  std::unordered_map<std::string, const PickleValue*> globals_;
};

}  // namespace

std::vector<TorchTensor> read_torch_file(ByteSpan bytes, const std::string& what, bool is_verified) {
  return read_torch_file(std::make_shared<MemorySource>(bytes), what, is_verified);
}
std::vector<TorchTensor> read_torch_file(std::shared_ptr<const ByteSource> source, const std::string& what,
                                         bool is_verified) {
  return TorchReader(std::move(source), what, is_verified).read();
}

Bytes write_torch_file(std::span<const TorchTensor> tensors) { return torch_file_parts(tensors).joined(); }
Parts torch_file_parts(std::span<const TorchTensor> tensors) { return TorchWriter().write(tensors); }

std::shared_ptr<Storage> read_storage(const ZipReader& archive, const ZipEntry& entry, bool are_bools) {
  auto storage = std::make_shared<Storage>(static_cast<size_t>(entry.size));
  archive.read_into(entry, {storage->data(), storage->size()});
  if (are_bools) make_bools(*storage);
  return storage;
}

}  // namespace qdq::format
