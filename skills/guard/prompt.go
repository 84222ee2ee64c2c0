package guard

import "regexp"

// prompts are the marks of a text that wants to be more than a user's: tokens
// of chat templates and of tool calls, roles at the beginning of a line, invisible
// characters of the block of tags, which carry text that nobody sees.
var prompts = []*regexp.Regexp{
	regexp.MustCompile(`<\|[a-z_/]{2,32}\|>|</?tool_(?:call|response|result)>|\[/?INST\]|<</?SYS>>|<start_of_turn>|<end_of_turn>`),
	regexp.MustCompile(`(?im)^[ \t]*(?:#{1,4}[ \t]*)?(?:system|assistant|developer)[ \t]*:`),
	regexp.MustCompile(`[\x{E0000}-\x{E007F}]+`),
}

// marks finds them.
func marks(text string) []Finding {
	var out []Finding
	for _, re := range prompts {
		for _, at := range re.FindAllStringIndex(text, maxFindings+1) {
			out = append(out, Finding{"prompt", text[at[0]:at[1]], at[0], at[1]})
		}
	}
	return out
}
