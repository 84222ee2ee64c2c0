package talk

import "mm-abi.org/mm/core/chat"

// Dialect describes how a model writes a tool call.
type Dialect = chat.Dialect

// Call is a tool call of the model.
type Call = chat.Call

// MMABI returns the dialect of MM-ABI 1.0 §2.3: {"tool": …, "args": {…}}.
func MMABI() Dialect { return chat.MMABI() }

// Hermes returns the dialect of Hermes, Qwen2.5 and Qwen3: {"name": …, "arguments": {…}}.
func Hermes() Dialect { return chat.Hermes() }

// ParseCall parses the object of one call, in any of the dialects.
func ParseCall(block string) (Call, error) { return chat.ParseCall(block) }
