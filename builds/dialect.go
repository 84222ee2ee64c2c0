package builds

import (
	"fmt"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/chat"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
)

// dialect reports how a core without the router's tokens writes calls.
func (c *checker) dialect(core *modules.Manifest, tokens []string, ptr string) {
	lacks := core.ID() + " has no tokens " + strings.Join(tokens, " ")
	tok, template, err := speech(core)
	if err != nil {
		c.list.Note(diag.CallDialect, c.graph.Pos(ptr), fmt.Sprintf("%s; its chat template decides when the build runs: %v", lacks, err), "")
		return
	}
	d, err := chat.Detect(template, tokens, tok.Marks)
	if err != nil {
		c.list.Add(diag.CallUnread, c.graph.Pos(ptr), fmt.Sprintf("%s, and %v", lacks, err), "use another core, or leave the router out")
		return
	}
	c.list.Note(diag.CallDialect, c.graph.Pos(ptr), fmt.Sprintf("%s; its calls are %s (%s)", lacks, d, d.Label), "")
}

// speech returns the tokenizer and the chat template of a core whose file is here.
func speech(core *modules.Manifest) (*tokenizer.Tokenizer, string, error) {
	entry := core.Entry(abi.GGUF)
	if core.Dir() == "" || entry == "" {
		return nil, "", fmt.Errorf("no GGUF file of %s here", core.ID())
	}
	f, err := gguf.Open(filepath.Join(core.Dir(), filepath.FromSlash(entry)))
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	tok, err := tokenizer.FromGGUF(f)
	if err != nil {
		return nil, "", err
	}
	return tok, strings.Clone(tok.Rules().Template), nil
}
