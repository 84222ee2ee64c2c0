package standard

import "regexp"

// prompts matches text that pretends to be more than a user's: tokens of chat
// templates and tool calls, roles at the beginning of a line, and invisible
// tag characters, which can carry hidden text.
var prompts = []func() *regexp.Regexp{
	lazy(`<\|[a-z_/]{2,32}\|>|</?tool_(?:call|response|result)>|\[/?INST\]|<</?SYS>>|<start_of_turn>|<end_of_turn>`),
	lazy(`(?im)^[ \t]*(?:#{1,4}[ \t]*)?(?:system|assistant|developer)[ \t]*:`),
	lazy(`[\x{E0000}-\x{E007F}]+`),
}

// marks finds prompt marks.
func marks(text string) []finding {
	var out []finding
	for _, re := range prompts {
		for _, at := range re().FindAllStringIndex(text, maxFindings+1) {
			out = append(out, finding{"prompt", text[at[0]:at[1]], at[0], at[1]})
		}
	}
	return out
}
