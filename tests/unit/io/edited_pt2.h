// Golden .pt2 files with something changed.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "format/json.h"
#include "format/npz.h"
#include "format/zip.h"
#include "golden_bytes.h"

namespace qdq {

// A program of tests/golden/io, or "control/NAME": one of tests/golden/programs/control.npz.
inline format::Bytes golden_pt2(const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos) return golden_bytes("io/" + name + ".pt2");
  for (const format::NamedTensor& array : format::read_npz(golden_bytes("programs/" + name.substr(0, slash) + ".npz")))
    if (array.name == name.substr(slash + 1) + "/model")
      return {array.tensor.raw(), array.tensor.raw() + array.tensor.nbytes()};
  fail(ErrorCode::kIo, "there is no golden program ", name);
}

using Members = std::map<std::string, format::Bytes>;

inline Members members_of(const std::string& name) {
  const format::Bytes file = golden_pt2(name);
  const format::ZipReader zip(file);
  Members out;
  for (const format::ZipEntry& entry : zip.entries()) {
    const format::ByteData data = zip.read(entry);
    out[entry.name].assign(data.bytes().begin(), data.bytes().end());
  }
  return out;
}

inline format::Bytes zip_of(const Members& members) {
  format::ZipWriter zip;
  for (const auto& [name, bytes] : members) zip.add(name, bytes);
  return zip.finish();
}

inline void set_text(format::Bytes& bytes, std::string_view text) {
  const format::ByteSpan span = format::bytes_of(text);
  bytes.assign(span.begin(), span.end());
}

// The file with one of its JSON members changed.
inline format::Bytes with_json(const std::string& file, const std::string& member,
                               const std::function<void(format::Json&)>& change) {
  Members members = members_of(file);
  format::Json json = format::parse_json(format::text_of(members.at(member)), member);
  change(json);
  set_text(members[member], format::print_json(json));
  return zip_of(members);
}

// A file whose pickle is {"conv.weight": os.system("true")}; whoever executes it can be made to do anything.
inline format::Bytes pt2_with_system_call() {
  static constexpr char kPickle[] = "\x80\x02}X\x0b\0\0\0conv.weightcos\nsystem\nX\x04\0\0\0true\x85Rs.";
  format::ZipWriter archive;
  archive.add("archive/data.pkl", format::bytes_of({kPickle, sizeof(kPickle) - 1}));
  archive.add("archive/byteorder", format::bytes_of("little"));
  Members members = members_of("conv_net");
  members["serialized_state_dict.pt"] = archive.finish();
  return zip_of(members);
}

}  // namespace qdq
