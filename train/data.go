package train

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"mm-abi.org/mm/core/chat"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/dataset/synth"
)

// Data describes the documents to train on.
type Data struct {
	// Files are paths relative to the configuration, or addresses of objects and
	// prefixes of buckets, which [Objects] reads.
	Files []string `json:"files,omitempty"`
	// Manifest is the folder of a data set of mm data build, instead of Files. It
	// sets Files, HeldFiles, Format and Keys. It may be the address of a prefix.
	Manifest string `json:"manifest,omitempty"`
	// Generate adds documents from templates, like mm data generate.
	Generate  *synth.Options `json:"generate,omitempty"`
	Format    string         `json:"format,omitempty"`    // text (default); jsonl, an object per line; chat, a conversation per line; uint16, token ids
	Keys      []string       `json:"keys,omitempty"`      // string keys of a jsonl line that form a document; "text"
	Context   []string       `json:"given,omitempty"`     // those of Keys that are context only, without loss
	Template  string         `json:"template,omitempty"`  // file of the chat template for conversations
	Separator string         `json:"separator,omitempty"` // between documents in text; <|endoftext|>
	JoinLines bool           `json:"join_lines,omitempty"`
	MinChars  int            `json:"min_chars,omitempty"` // shorter documents are dropped
	MaxChars  int            `json:"max_chars,omitempty"` // longer ones are dropped; 0: no limit
	Held      float64        `json:"held_out,omitempty"`  // share of held-out documents; 0.05
	HeldFiles []string       `json:"held_out_files,omitempty"`
	SplitSeed uint64         `json:"split_seed,omitempty"`
	// Special parses control tokens in the documents as such, which is safe
	// only for trusted text.
	Special bool   `json:"control_tokens,omitempty"`
	Cache   string `json:"cache,omitempty"` // folder of token files; if empty, no cache
}

// The formats with special requirements.
const (
	uint16Format = "uint16" // token ids
	chatFormat   = "chat"   // conversations
)

func (d Data) validate() error {
	var errs []error
	if len(d.Files) == 0 && d.Generate == nil && d.Manifest == "" {
		errs = append(errs, errors.New("data: missing files, manifest and generate"))
	}
	if d.Manifest != "" && (len(d.Files)+len(d.HeldFiles)+len(d.Keys) > 0 || d.Format != "" && d.Format != chatFormat) {
		errs = append(errs, At("/data/manifest", errors.New("data: manifest excludes files, held_out_files, keys and formats other than chat")))
	}
	if d.Generate != nil {
		errs = append(errs, d.Generate.Validate())
	}
	switch d.Format {
	case "", "text", "jsonl", chatFormat:
	case uint16Format:
		if len(d.Files) != 1 || len(d.HeldFiles) > 1 || d.Generate != nil || d.Held != 0 || d.JoinLines || d.MinChars+d.MaxChars != 0 || d.Special || d.Cache != "" && !d.remote() {
			errs = append(errs, errors.New("data: uint16 takes one file of token ids in files and one in held_out_files and excludes all other keys"))
		} else if d.remote() && d.Cache == "" {
			errs = append(errs, errors.New("data: uint16 maps its files: an object requires cache"))
		}
	default:
		errs = append(errs, fmt.Errorf("data: unknown format %q, want text, jsonl, chat or uint16", d.Format))
	}
	if d.Manifest == "" && (d.Format == chatFormat) != (d.Template != "") {
		errs = append(errs, errors.New("data: format chat and template require each other"))
	}
	if len(d.Keys) > 0 && d.Format != "jsonl" {
		errs = append(errs, errors.New("data: keys require format jsonl"))
	}
	for _, k := range d.Context {
		if !slices.Contains(d.Keys, k) {
			errs = append(errs, fmt.Errorf("data: given: %q is not in keys", k))
		}
	}
	if len(d.Keys) > 0 && len(d.Context) >= len(d.Keys) {
		errs = append(errs, errors.New("data: given: contains all keys, so nothing is learned"))
	}
	if d.MinChars < 0 || d.MaxChars < 0 || !(d.Held >= 0 && d.Held < 1) {
		errs = append(errs, fmt.Errorf("data: out of range: min_chars %d, max_chars %d, held_out %v", d.MinChars, d.MaxChars, d.Held))
	}
	return errors.Join(errs...)
}

// remote reports whether a file is an object.
func (d Data) remote() bool {
	return slices.ContainsFunc(slices.Concat(d.Files, d.HeldFiles), IsAddress)
}

// documents reads and splits the files.
func (d Data) documents(from *files, form chat.Options) (train, held []dataset.Document, err error) {
	all, err := d.read(from, form, d.Files)
	if err != nil {
		return nil, nil, err
	}
	if d.Generate != nil {
		generated, err := d.generate()
		if err != nil {
			return nil, nil, err
		}
		all = append(all, generated...)
	}
	if len(d.HeldFiles) > 0 {
		held, err = d.read(from, form, d.HeldFiles)
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

func (d Data) read(from *files, form chat.Options, names []string) ([]dataset.Document, error) {
	template, err := d.template(from.dir)
	if err != nil {
		return nil, err
	}
	f := dataset.Filter{JoinLines: d.JoinLines, MinChars: d.MinChars, MaxChars: d.MaxChars, Keys: d.Keys, Context: d.Context}
	var all []dataset.Document
	for _, name := range names {
		docs, err := from.documents(name, func(r io.Reader) iter.Seq2[dataset.Document, error] {
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
	if len(all) == 0 && len(names) > 0 {
		return nil, fmt.Errorf("data: no document in %d files passes the filter", len(names))
	}
	return all, nil
}

// template returns the chat template of conversations, nil for other formats.
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

// documents reads the documents of a file.
func (f *files) documents(name string, read func(io.Reader) iter.Seq2[dataset.Document, error]) ([]dataset.Document, error) {
	r, err := f.open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return dataset.Collect(read(r))
}
