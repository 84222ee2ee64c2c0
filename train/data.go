package train

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"

	"mm-abi.org/mm/core/chat"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/dataset/synth"
)

// Data says which documents to train on.
type Data struct {
	Files []string `json:"files,omitempty"` // relative to the configuration
	// Generate adds documents from templates, as mm data generate writes them.
	Generate  *synth.Options `json:"generate,omitempty"`
	Format    string         `json:"format,omitempty"`    // text (default); jsonl, an object a line; chat, a conversation a line; uint16, token ids
	Keys      []string       `json:"keys,omitempty"`      // strings of a line of jsonl that make a document; "text"
	Given     []string       `json:"given,omitempty"`     // those of Keys that are told the model and not learnt
	Template  string         `json:"template,omitempty"`  // file of the chat template that conversations are written in
	Separator string         `json:"separator,omitempty"` // between documents in text; <|endoftext|>
	JoinLines bool           `json:"join_lines,omitempty"`
	MinChars  int            `json:"min_chars,omitempty"` // shorter documents are dropped
	MaxChars  int            `json:"max_chars,omitempty"` // longer ones too; 0: none
	Held      float64        `json:"held_out,omitempty"`  // share of the documents kept apart; 0.05
	HeldFiles []string       `json:"held_out_files,omitempty"`
	SplitSeed uint64         `json:"split_seed,omitempty"`
	// Special takes control tokens that are written in the documents as such,
	// which is right only where the text can be trusted.
	Special bool   `json:"control_tokens,omitempty"`
	Cache   string `json:"cache,omitempty"` // folder of token files; none when empty
}

// The formats that want something of their own.
const (
	uint16Format = "uint16" // token ids
	chatFormat   = "chat"   // conversations
)

func (d Data) validate() error {
	var errs []error
	if len(d.Files) == 0 && d.Generate == nil {
		errs = append(errs, errors.New("data: no files, and nothing to generate"))
	}
	if d.Generate != nil {
		errs = append(errs, d.Generate.Validate())
	}
	switch d.Format {
	case "", "text", "jsonl", chatFormat:
	case uint16Format:
		if len(d.Files) != 1 || len(d.HeldFiles) > 1 || d.Generate != nil || d.Held != 0 || d.JoinLines || d.MinChars+d.MaxChars != 0 || d.Special || d.Cache != "" {
			errs = append(errs, errors.New("data: uint16 is one file of token ids, and one in held_out_files: nothing else may stand beside them"))
		}
	default:
		errs = append(errs, fmt.Errorf("data: format %q is none of text, jsonl, chat, uint16", d.Format))
	}
	if (d.Format == chatFormat) != (d.Template != "") {
		errs = append(errs, errors.New("data: a template belongs to the format chat, and that to a template"))
	}
	if len(d.Keys) > 0 && d.Format != "jsonl" {
		errs = append(errs, errors.New("data: keys belong to the format jsonl"))
	}
	for _, k := range d.Given {
		if !slices.Contains(d.Keys, k) {
			errs = append(errs, fmt.Errorf("data: given: %q is none of keys", k))
		}
	}
	if len(d.Keys) > 0 && len(d.Given) >= len(d.Keys) {
		errs = append(errs, errors.New("data: given: all keys are given, so nothing is learnt"))
	}
	if d.MinChars < 0 || d.MaxChars < 0 || !(d.Held >= 0 && d.Held < 1) {
		errs = append(errs, fmt.Errorf("data: min_chars %d, max_chars %d, held_out %v: out of range", d.MinChars, d.MaxChars, d.Held))
	}
	return errors.Join(errs...)
}

// documents reads and splits what the files hold.
func (d Data) documents(dir string, form chat.Options) (train, held []dataset.Document, err error) {
	all, err := d.read(dir, form, d.Files)
	if err != nil {
		return nil, nil, err
	}
	if d.Generate != nil {
		made, err := d.generate()
		if err != nil {
			return nil, nil, err
		}
		all = append(all, made...)
	}
	if len(d.HeldFiles) > 0 {
		held, err = d.read(dir, form, d.HeldFiles)
		train, _ = dataset.Split(all, 0, d.SplitSeed)
		return train, held, err
	}
	share := d.Held
	if share == 0 {
		share = 0.05
	}
	train, held = dataset.Split(all, share, d.SplitSeed)
	return train, held, nil
}

func (d Data) read(dir string, form chat.Options, files []string) ([]dataset.Document, error) {
	template, err := d.template(dir)
	if err != nil {
		return nil, err
	}
	f := dataset.Filter{JoinLines: d.JoinLines, MinChars: d.MinChars, MaxChars: d.MaxChars, Keys: d.Keys, Given: d.Given}
	var all []dataset.Document
	for _, name := range files {
		docs, err := readFile(Resolve(dir, name), func(r io.Reader) iter.Seq2[dataset.Document, error] {
			switch d.Format {
			case "jsonl":
				return dataset.ReadJSONL(r, f)
			case chatFormat:
				return dataset.ReadChat(r, template, form, f)
			}
			return dataset.ReadText(r, d.Separator, f)
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, docs...)
	}
	if len(all) == 0 && len(files) > 0 {
		return nil, fmt.Errorf("data: %d files hold no document that passes the filter", len(files))
	}
	return all, nil
}

// template is that of conversations; nil for other formats.
func (d Data) template(dir string) (*chat.Template, error) {
	if d.Format != chatFormat {
		return nil, nil
	}
	source, err := readBounded(Resolve(dir, d.Template), maxTemplate)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	return chat.Parse(string(source))
}

func (d Data) generate() ([]dataset.Document, error) {
	var text bytes.Buffer
	opt := *d.Generate
	opt.Separator = dataset.Separator
	if err := synth.Write(&text, opt); err != nil {
		return nil, err
	}
	return dataset.Collect(dataset.ReadText(&text, dataset.Separator, dataset.Filter{}))
}

func readFile(path string, read func(io.Reader) iter.Seq2[dataset.Document, error]) ([]dataset.Document, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return dataset.Collect(read(f))
}
