package study

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"path/filepath"
	"slices"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset"
)

// The files of the parts, relative to the folder of a study.
const (
	trainFile     = "parts/train.jsonl"
	chooseFile    = "parts/choose.jsonl"
	judgeFile     = "parts/judge.jsonl"
	tokenizerFile = "parts/tokenizer.gguf"
)

// minDocuments is the minimum number of documents in a part that is held out.
const minDocuments = 8

// Parts are the parts of the documents with their tokenizer.
type Parts struct {
	Files     map[string]string `json:"files"`     // hex SHA-256
	Documents map[string]int    `json:"documents"` // number by file
}

// shareFile returns the file with a share of the training documents.
func shareFile(share float64) string {
	if share == 0 {
		return trainFile
	}
	return "parts/train-" + number(share) + ".jsonl"
}

// placed is a document with its place in the order of the split.
type placed struct {
	key  [sha256.Size]byte
	text string
}

// split divides documents by the SHA-256 of seed and text, so that equal documents are in
// the same part, and sorts each part by it. Parts that are held out have no document twice.
func (h Held) split(docs []dataset.Document) (train, choose, judge []string) {
	all := make([]placed, len(docs))
	for i, d := range docs {
		all[i] = placed{sha256.Sum256(fmt.Appendf(nil, "%d\n%s", h.Seed, d.Text)), d.Text}
	}
	slices.SortStableFunc(all, func(a, b placed) int { return bytes.Compare(a.key[:], b.key[:]) })
	for i, d := range all {
		at := float64(binary.BigEndian.Uint64(d.key[24:])) / math.MaxUint64 // independent of the order
		again := i > 0 && d.key == all[i-1].key
		switch {
		case at >= h.Judge+h.Choose:
			train = append(train, d.text)
		case again:
		case at < h.Judge:
			judge = append(judge, d.text)
		default:
			choose = append(choose, d.text)
		}
	}
	return train, choose[:min(len(choose), h.Documents)], judge[:min(len(judge), h.Documents)]
}

// lines encodes documents as JSON lines.
func lines(docs []string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for _, text := range docs {
		if err := e.Encode(map[string]string{"text": text}); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// prepare writes the parts into dir.
func (s *Study) prepare(dir string, files fsx.Options) (Parts, error) {
	docs, err := s.Base.Documents(s.Dir)
	if err != nil {
		return Parts{}, err
	}
	parts := Parts{Files: map[string]string{}, Documents: map[string]int{}}
	of := map[string][]string{}
	of[trainFile], of[chooseFile], of[judgeFile] = s.Held.split(docs)
	for _, name := range []string{trainFile, chooseFile, judgeFile} {
		if n := len(of[name]); n < minDocuments {
			var list diag.List
			list.Add(diag.StudyHeld, diag.Pos{File: s.Recipe}, fmt.Sprintf("%s: got %d documents, want at least %d", path.Base(name), n, minDocuments), "")
			return parts, list.Err()
		}
	}
	for _, a := range s.Arms {
		n := int(a.Share * float64(len(of[trainFile])))
		if a.Share > 0 {
			of[shareFile(a.Share)] = of[trainFile][:max(n, 1)]
		}
	}
	d, err := fsx.Create(dir, 0o755, files)
	if err != nil {
		return parts, err
	}
	defer d.Close()
	if err := d.MkdirAll("parts", 0o755); err != nil {
		return parts, err
	}
	for _, name := range sortedKeys(of) {
		text, err := lines(of[name])
		if err != nil {
			return parts, err
		}
		parts.Documents[name] = len(of[name])
		if err := parts.write(d, name, text); err != nil {
			return parts, err
		}
	}
	text, err := s.tokenizer(of[trainFile])
	if err != nil {
		return parts, err
	}
	return parts, parts.write(d, tokenizerFile, text)
}

// tokenizer encodes the tokenizer of the recipe, trained on the training part if it has no
// file.
func (s *Study) tokenizer(docs []string) ([]byte, error) {
	all := make([]dataset.Document, len(docs))
	for i, text := range docs {
		all[i].Text = text
	}
	tok, err := s.Base.TokenizerOf(s.Dir, all)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err = gguf.Write(&b, tok.KVs(), nil)
	return b.Bytes(), err
}

// write writes a file, unless it has the content, and records its digest.
func (p Parts) write(d *fsx.Dir, name string, data []byte) error {
	sum := sha256.Sum256(data)
	p.Files[name] = hex.EncodeToString(sum[:])
	if _, digest, err := fsx.Digest(filepath.Join(d.Path(), filepath.FromSlash(name))); err == nil && digest == "sha256:"+p.Files[name] {
		return nil
	}
	return d.WriteFile(name, data, 0o644)
}

// present reports whether dir holds the files of p.
func (p Parts) present(dir string) (bool, error) {
	for _, name := range sortedKeys(p.Files) {
		_, digest, err := fsx.Digest(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil || digest != "sha256:"+p.Files[name] {
			return false, ignoreMissing(err)
		}
	}
	return true, nil
}

// ignoreMissing returns err unless a file is missing.
func ignoreMissing(err error) error {
	if isMissing(err) {
		return nil
	}
	return err
}

// spec returns the trial of an arm: trained with a seed for a number of tokens, scored on
// a part.
func (s *Study) spec(p Parts, a Arm, seed uint64, tokens int, score string) ([]byte, error) {
	cfg := a.Config
	total := cmp.Or(a.Tokens, s.Tokens)
	step := stepTokens(cfg)
	steps := ceil(total, step)
	cfg.Name, cfg.Seed, cfg.Threads = "", seed, 0
	cfg.Init.Seed = seed
	cfg.Data = train.Data{Files: []string{shareFile(a.Share)}, Format: "jsonl", HeldFiles: []string{chooseFile}, Special: cfg.Data.Special}
	cfg.Tokenizer = train.Tokenizer{File: tokenizerFile}
	cfg.Stop = train.Stop{Tokens: total}
	cfg.SaveEvery = max(steps/8, 1)
	cfg.Eval = train.Eval{Every: max(steps/8, 1), Windows: 64}
	recipe, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, name := range []string{shareFile(a.Share), chooseFile, tokenizerFile, score} {
		files[name] = p.Files[name]
	}
	return json.Marshal(Spec{Version: specVersion, Recipe: recipe, Until: ceil(min(tokens, total), step), Score: score,
		Folder: "trials/" + digestOf(normal(cfg))[:16], Files: files})
}

func ceil(n, by int) int { return (n + by - 1) / by }

// isMissing reports whether err is that of an absent file.
func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
