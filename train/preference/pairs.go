package preference

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/synth"
	"mm-abi.org/mm/train/nn"
)

// Pair is a prompt with a preferred and another answer.
type Pair struct {
	Prompt   string `json:"prompt"`
	Chosen   string `json:"chosen"`
	Rejected string `json:"rejected"`
	// Kind is the kind of an errand, for evaluation.
	Kind string `json:"-"`
	// Route is the beginning of the chosen answer that names the tool; "" for
	// pairs of files.
	Route string `json:"-"`
	// Control parses control tokens in the texts.
	Control bool `json:"-"`
}

// maxLine bounds a line of pairs, in bytes.
const maxLine = 1 << 20

// ReadPairs reads pairs from JSON lines, an object with "prompt", "chosen" and
// "rejected" in each. Lists of messages are refused.
func ReadPairs(r io.Reader) ([]Pair, error) { return readPairs(r, maxPairs) }

func readPairs(r io.Reader, most int) ([]Pair, error) {
	var all []Pair
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine+1) // with the end of a line
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		p, err := parsePair(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if all = append(all, p); len(all) > most {
			return nil, fmt.Errorf("line %d: more than %d pairs", n, most)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("line longer than %d bytes", maxLine)
	} else if err != nil {
		return nil, err
	}
	return all, nil
}

func parsePair(line []byte) (Pair, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(line, &raw); err != nil {
		return Pair{}, fmt.Errorf("got no JSON object: %w", err)
	}
	var p Pair
	for _, f := range []struct {
		key  string
		into *string
	}{{"prompt", &p.Prompt}, {"chosen", &p.Chosen}, {"rejected", &p.Rejected}} {
		v, ok := raw[f.key]
		if !ok {
			return p, fmt.Errorf("missing %q", f.key)
		}
		if bytes.HasPrefix(v, []byte{'['}) {
			return p, fmt.Errorf("%q: lists of messages are not supported, want a string", f.key)
		}
		if err := json.Unmarshal(v, f.into); err != nil {
			return p, fmt.Errorf("%q: want a string: %w", f.key, err)
		}
	}
	switch {
	case p.Chosen == "" || p.Rejected == "":
		return p, errors.New("empty answer")
	case p.Chosen == p.Rejected:
		return p, errors.New("chosen and rejected are equal")
	}
	return p, nil
}

// open returns the pairs for training and for evaluation. n is the number of
// errands for evaluation.
func (d Data) open(dir string, seed uint64, n int) (learned, held []Pair, err error) {
	if err := train.NotObjects("/data/files", d.Files...); err != nil {
		return nil, nil, err
	}
	for i, file := range d.Files {
		some, err := readFile(train.Resolve(dir, file))
		if err != nil {
			return nil, nil, train.At(fmt.Sprintf("/data/files/%d", i), err)
		}
		for k := range some {
			some[k].Control = d.ControlTokens
		}
		a, b := split(some, d.HeldOut, nn.Mix(seed, uint64(i)))
		learned, held = append(learned, a...), append(held, b...)
	}
	if e := d.Errands; e != nil {
		learned = append(learned, errands(e.Seed, e.N, false, synth.Varied, e.Kinds)...)
		held = append(held, errands(e.Seed+1, n, true, synth.Unseen, e.Kinds)...)
	}
	if len(learned) == 0 {
		return nil, nil, train.Atf("/data", "no pairs")
	}
	return learned, held, nil
}

func readFile(path string) ([]Pair, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	pairs, err := ReadPairs(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return pairs, nil
}

// split holds out a share of the pairs, by the digest of their prompts: pairs
// of a prompt stay together.
func split(pairs []Pair, share float64, seed uint64) (learned, held []Pair) {
	for _, p := range pairs {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d\n%s", seed, p.Prompt))
		if float64(uint32(sum[0])<<16|uint32(sum[1])<<8|uint32(sum[2]))/(1<<24) < share {
			held = append(held, p)
		} else {
			learned = append(learned, p)
		}
	}
	return learned, held
}

// errands returns pairs of questions for tools.
func errands(seed uint64, n int, held bool, w synth.Wording, kinds []string) []Pair {
	var all []Pair
	for _, c := range synth.Choices(seed, n, held, w, kinds...) {
		route, _, _ := strings.Cut(c.Right, `,"args"`)
		all = append(all, Pair{Prompt: c.Ask, Chosen: c.Right, Rejected: c.Wrong, Kind: c.Kind, Route: route, Control: true})
	}
	return all
}

// digest returns the SHA-256 of pairs, in hex.
func digest(lists ...[]Pair) string {
	h := sha256.New()
	for _, pairs := range lists {
		fmt.Fprintf(h, "%d\n", len(pairs))
		for _, p := range pairs {
			fmt.Fprintf(h, "%q %q %q %v\n", p.Prompt, p.Chosen, p.Rejected, p.Control)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
