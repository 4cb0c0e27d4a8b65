// Operators on tensors of another rank as the same of images, for which there are steps.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/program.h"

namespace qdq {

// Finds the groups of convolutions and what stands between them, rewrites those that are worth it, and brings values
// from one form to the other at their borders. A derived class knows what the values, convolutions and pools of its
// rank are.
class AsImages {
 public:
  // With `floats` also where at least as many convolutions gain as values must be brought from one form to the other.
  AsImages(Program& program, size_t rank, std::string_view convolution, bool floats)
      : program_(program), rank_(rank), convolution_(convolution), floats_(floats) {}
  virtual ~AsImages() = default;

  void run();

 protected:
  // Whether a tensor of the rank has sizes that an image can have.
  virtual bool takes_sizes(const SymShape& sizes) const = 0;
  // Whether the settings of a convolution are such as rewrite_convolution() takes.
  virtual bool takes_convolution(const Node& node) const = 0;
  virtual bool is_pool(const Node& node) const = 0;
  virtual void rewrite_convolution(Node& node) = 0;
  virtual void rewrite_pool(Node& node) = 0;
  // The axis of images along which a concatenation along this one joins; none if there is none.
  virtual std::optional<int64_t> image_axis(int64_t axis) const = 0;
  // Calls at the graph's insertion point that give the image of a value, and the value of an image.
  virtual Node* to_image(Node* value) = 0;
  virtual Node* from_image(Node* image, const SymShape& sizes) = 0;

  // The node has become one of images.
  void lift(Node& node);
  // `image` stands for the value of `node` from now on.
  void replace(Node& node, Node* image);
  // The value as an image.
  Node* raised(Node* x);
  bool is_raised(const Node* x) const;
  // The sizes of a value, also when an image stands for it; none if it is no tensor.
  SymShape sizes_of(const Node* x) const;
  // The constant weight that `weight` is or dequantizes, in another shape.
  Node* reshaped_weight(Node* weight, Node* before, const Shape& sizes);
  const Tensor& weight_values(const Node& weight) const;
  // A call with its shape that reads images, or makes them.
  Node* add_call(std::string_view target, std::vector<Argument> args);

  Program& program_;

 private:
  // Operators that hang together, by union of their indices.
  struct Group {
    size_t parent = 0;
    int64_t convolutions = 0, borders = 0;
    bool is_quantized = false;
    std::unordered_set<const Node*> sources{};
  };

  size_t find(size_t group);
  bool is_value(const Node* node) const;
  bool is_convolution(const Node& node) const;
  bool passes(const Node& node) const;
  bool has_own_shape(const Node& node) const;
  void join(Node& node);
  void add_to_new_group(Node& node, const std::vector<Node*>& with);
  void weigh(const Node& node, Group& group);
  bool takes(const Node* node);
  void rewrite(Node& node);
  Node* image_of(Node* x);
  void lower_for_others(Node* image);

  size_t rank_;
  std::string_view convolution_;
  bool floats_;
  std::vector<Group> groups_;
  std::unordered_map<const Node*, size_t> group_of_;
  std::unordered_map<const Node*, SymShape> lifted_;  // images, with the sizes of what they stand for
  std::vector<Node*> images_;                         // the same in the order in which they came
  std::unordered_set<const Node*> added_;
  std::unordered_map<const Node*, Node*> raised_;
};

}  // namespace qdq
