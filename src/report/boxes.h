// The boxes in a detector's outputs. Files do not say which output holds what, so shapes and values tell.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "tensor/tensor.h"

namespace qdq {

struct Box {
  double x0, y0, x1, y1;  // in the model's own units
  double score;           // 0 to 1
  int64_t label;
};

// The part of both that they share: area of the intersection over that of the union, 0 to 1.
double overlap(const Box& a, const Box& b);

// The layouts of BoxLayout, in words.
inline constexpr std::string_view kBoxLayouts =
    "[N, K, 6], [N, K, 5], [N, K, 5 + classes], [N, 4 + classes, K], or boxes [N, K, 4] beside scores";

// Whether outputs of these shapes, null where they are unknown, may hold boxes; values tell in the end.
bool may_hold_boxes(const std::vector<const TensorMeta*>& outputs);

// Where boxes stand in the outputs of a detector. Known are, with N samples (the first axis may be missing, which is
// one sample), K boxes and C classes:
//   [N, K, 6]      corners, score and a whole number for the class;
//   [N, K, 5]      box and score;
//   [N, K, 5 + C]  box, the score of any object and those of the classes, which are multiplied (YOLOv5, YOLOX);
//   [N, 4 + C, K]  box and the scores of the classes (YOLOv8);
//   boxes [N, K, 4] with scores [N, K], [N, K, C] or [N, C, K] and perhaps classes [N, K] of whole numbers.
// Boxes are two corners if each second corner lies behind its first, else centre and size. Scores beyond 0 to 1 go
// through the sigmoid; where the scores of C > 1 classes sum to 1, class 0 is the background.
class BoxLayout {
 public:
  // Reads it from the float model's outputs, of all batches; nothing if they hold no boxes.
  static std::optional<BoxLayout> of(const std::vector<std::vector<Tensor>>& batches);

  // The boxes of each sample of a batch with a score of at least `least`, best first, at most 100; of boxes of one
  // class that overlap by more than a half only the best. Throws Error{kInvalidArgument} if the shapes are of another
  // layout.
  std::vector<std::vector<Box>> read(const std::vector<Tensor>& outputs, double least) const;

 private:
  enum class Form { kLabelled, kScored, kObjects, kClasses, kSeparate };
  struct Table;

  std::optional<Table> table_of(const std::vector<Tensor>& outputs) const;
  bool find_form(const std::vector<Tensor>& outputs);
  bool find_separate(const std::vector<Tensor>& outputs);
  void note_values(const std::vector<std::vector<Tensor>>& batches);
  std::vector<Box> sample(const Table& table, int64_t index, double least) const;

  Form form_ = Form::kSeparate;
  size_t boxes_ = 0, scores_ = 0;  // which outputs
  std::optional<size_t> labels_;
  bool are_corners_ = true, are_logits_ = false, are_object_logits_ = false, has_background_ = false;
};

}  // namespace qdq
