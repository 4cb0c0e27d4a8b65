// Messages of an ONNX file, field by field.
#pragma once

#include <protozero/pbf_reader.hpp>

#include <string>
#include <vector>

#include "format/bytes.h"
#include "format/onnx_file.h"
#include "tensor/strings.h"

namespace qdq::format {

// A message whose fields are read one after the other, each checked to be of the wanted kind.
class OnnxMessage {
 public:
  OnnxMessage(protozero::data_view bytes, const char* what, const OnnxExternalData* external)
      : reader_(bytes), what_(what), external_(external) {}

  const OnnxExternalData& external() const { return *external_; }

  bool next() { return reader_.next(); }
  uint32_t field() const { return reader_.tag(); }
  void skip() { reader_.skip(); }

  int64_t integer() {
    want(protozero::pbf_wire_type::varint);
    return reader_.get_int64();
  }
  float real() {
    want(protozero::pbf_wire_type::fixed32);
    return reader_.get_float();
  }
  protozero::data_view view() {
    want(protozero::pbf_wire_type::length_delimited);
    return reader_.get_view();
  }
  std::string text() {
    const protozero::data_view bytes = view();
    QDQ_CHECK(is_utf8({bytes.data(), bytes.size()}), kBadFile, "the ONNX file has a name in a ", what_,
              " that is not UTF-8");
    return {bytes.data(), bytes.size()};
  }
  OnnxMessage message(const char* what) {
    OnnxMessage out{view(), what, external_};
    out.depth_ = depth_ + 1;
    return out;
  }
  int depth() const { return depth_; }  // how many messages this one lies in

  // Appends a repeated number, packed or not.
  void append_integers(std::vector<int64_t>& out) {
    if (reader_.wire_type() == protozero::pbf_wire_type::varint) return out.push_back(integer());
    const protozero::data_view packed = view();
    const char* at = packed.data();
    while (at != packed.data() + packed.size())
      out.push_back(static_cast<int64_t>(protozero::decode_varint(&at, packed.data() + packed.size())));
  }
  // The bytes of repeated numbers of fixed size.
  void append_fixed(Bytes& out, protozero::pbf_wire_type alone, size_t size) {
    protozero::data_view bytes;
    if (reader_.wire_type() == alone) {
      if (size == sizeof(float)) append_number(out, reader_.get_float());
      else append_number(out, reader_.get_double());
      return;
    }
    bytes = view();
    QDQ_CHECK(bytes.size() % size == 0, kBadFile, "the ONNX file has packed numbers in a ", what_, " of ", bytes.size(),
              " bytes, no multiple of ", size);
    append(out, bytes_of({bytes.data(), bytes.size()}));
  }

 private:
  void want(protozero::pbf_wire_type type) const {
    QDQ_CHECK(reader_.wire_type() == type, kBadFile, "the ONNX file has field ", reader_.tag(), " of a ", what_,
              " in the wire type ", static_cast<uint32_t>(reader_.wire_type()), ", wanted ",
              static_cast<uint32_t>(type));
  }

  protozero::pbf_reader reader_;
  const char* what_;
  const OnnxExternalData* external_;
  int depth_ = 0;
};

}  // namespace qdq::format
