// The command line described from its own tables of verbs and options.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace qdq {

// What completes verbs and options in a shell: "bash", "zsh" or "fish".
std::string completions(const CLI::App& app, const std::string& shell);
// The manual page qdq(1), in the language of man(7).
std::string man_page(const CLI::App& app);

}  // namespace qdq
