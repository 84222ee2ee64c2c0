package corpus

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"unicode"
	"unicode/utf8"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/corpus/pii"
)

// document is a document of the result. Its hash is that of its normalized
// text: in lower case, with single spaces.
type document struct {
	hash  [sha256.Size]byte
	keys  []uint64 // of the bands, for similar documents
	words []byte   // normalized text
	line  []byte   // JSON, without the end of the line
}

// idBytes is the length of a document's id in bytes of its hash.
const idBytes = 16

// Counts count rows and documents of a source.
type Counts struct {
	Rows      int64 `json:"rows"`
	Faulty    int64 `json:"faulty,omitempty"`     // skipped
	Filtered  int64 `json:"filtered,omitempty"`   // by where
	Length    int64 `json:"length,omitempty"`     // dropped by min_chars and max_chars, or blank
	PII       int64 `json:"pii,omitempty"`        // dropped for personal data
	Duplicate int64 `json:"duplicates,omitempty"` // dropped as equal
	Near      int64 `json:"near,omitempty"`       // dropped as similar
	Kept      int64 `json:"kept"`
}

func (c *Counts) add(d Counts) {
	c.Rows += d.Rows
	c.Faulty += d.Faulty
	c.Filtered += d.Filtered
	c.Length += d.Length
	c.PII += d.PII
	c.Duplicate += d.Duplicate
	c.Near += d.Near
	c.Kept += d.Kept
}

// maxFaults is the number of faults of a source that are reported.
const maxFaults = 20

// outcome is the result of a block.
type outcome struct {
	counts Counts
	docs   []document
	faults []fault
	seen   []bool             // columns of the reader with a value
	found  map[pii.Kind]int64 // findings
}

// worker converts blocks.
type worker struct {
	m       *Manifest
	readers []*reader
	pii     *pii.Detector
	hasher  *MinHasher // nil without near duplicates
}

// process converts the rows of a block.
func (w *worker) process(b block) *outcome {
	r := w.readers[b.source]
	out := &outcome{seen: make([]bool, len(r.columns)), found: map[pii.Kind]int64{}}
	number := b.first
	one := func(row map[string]any, err error) {
		if err == nil {
			for i, c := range r.columns {
				if row[c] != nil {
					out.seen[i] = true
				}
			}
			err = w.document(r, row, out)
		}
		out.counts.Rows++
		if err != nil {
			out.fault(err, number)
		}
	}
	if b.long {
		one(nil, faultf(diag.RowLimit, "longer than %d bytes", maxRow))
		return out
	}
	for _, row := range b.rows {
		one(row, checkRow(row))
		number++
	}
	separator := []byte("\n")
	if r.source.Format == Text {
		separator = []byte(r.source.Separator)
	}
	for data := b.data; len(data) > 0; number++ {
		row, rest, _ := bytes.Cut(data, separator)
		data = rest
		switch blank := len(bytes.TrimSpace(row)) == 0; {
		case len(row) > maxRow:
			one(nil, faultf(diag.RowLimit, "longer than %d bytes", maxRow))
		case !blank:
			one(r.parse(row))
		}
	}
	return out
}

func (o *outcome) fault(err error, row int64) {
	o.counts.Faulty++
	f, ok := err.(*fault)
	if !ok {
		f = faultf(diag.RowFault, "%v", err)
	}
	if len(o.faults) < maxFaults {
		c := *f
		c.row = row
		o.faults = append(o.faults, c)
	}
}

// document adds the document of a row to the outcome unless the manifest drops
// it.
func (w *worker) document(r *reader, row map[string]any, out *outcome) error {
	keep, err := r.keep(row)
	if err != nil {
		return err
	}
	if !keep {
		out.counts.Filtered++
		return nil
	}
	doc, err := r.document(row)
	if err != nil {
		return err
	}
	chars := 0
	each(doc, func(s string) bool { chars += utf8.RuneCountInString(s); return true })
	if chars == 0 || chars < w.m.MinChars || w.m.MaxChars > 0 && chars > w.m.MaxChars {
		out.counts.Length++
		return nil
	}
	if w.pii != nil && !w.scrub(doc, out) {
		out.counts.PII++
		return nil
	}
	var d document
	d.words = normalize(make([]byte, 0, chars+chars/8), doc)
	if len(d.words) == 0 {
		out.counts.Length++
		return nil
	}
	d.hash = sha256.Sum256(d.words)
	d.line = appendDocument(nil, &d, r, doc)
	if w.hasher != nil {
		d.keys = w.hasher.Bands(d.words)
	}
	d.words = nil
	out.docs = append(out.docs, d)
	return nil
}

// appendDocument appends the line of a document.
func appendDocument(b []byte, d *document, r *reader, doc map[string]any) []byte {
	b = append(b, `{"id":"`...)
	b = hex.AppendEncode(b, d.hash[:idBytes])
	b = append(b, `","source":`...)
	b = appendText(b, r.source.ID)
	for _, k := range r.keys {
		b = append(appendText(append(b, ','), k), ':')
		b = appendValue(b, doc[k])
	}
	return append(b, '}')
}

// scrub counts the personal data of a document and applies the policy. It
// returns false to drop the document.
func (w *worker) scrub(doc map[string]any, out *outcome) bool {
	found := false
	for k, v := range doc {
		doc[k] = replace(v, func(s string) string {
			list := w.pii.Find(s)
			for _, f := range list {
				out.found[f.Kind]++
				found = true
			}
			if len(list) == 0 || w.m.PII.Action != Scrub {
				return s
			}
			return pii.Replace(s, list)
		})
	}
	return !found || w.m.PII.Action != Drop
}

// normalize appends the texts of v in lower case and with single spaces, those
// of a list or an object separated by a line.
func normalize(b []byte, v any) []byte {
	each(v, func(s string) bool {
		if len(b) > 0 && b[len(b)-1] != '\n' {
			b = append(b, '\n')
		}
		b = normalizeText(b, s)
		return true
	})
	return b
}

// lower maps ASCII to lower case, space to ' ', and other bytes to 0.
var lower = func() (t [256]byte) {
	for c := range utf8.RuneSelf {
		switch {
		case c == ' ' || c >= '\t' && c <= '\r':
			t[c] = ' '
		case c >= 'A' && c <= 'Z':
			t[c] = byte(c) + 'a' - 'A'
		default:
			t[c] = byte(c)
		}
	}
	return t
}()

func normalizeText(b []byte, s string) []byte {
	from, space := len(b), false
	for i := 0; i < len(s); {
		if c := lower[s[i]]; c >= ' ' {
			i++
			if c == ' ' {
				space = true
				continue
			}
			if space && len(b) > from {
				b = append(b, ' ')
			}
			space = false
			b = append(b, c)
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		if unicode.IsSpace(r) {
			space = true
			continue
		}
		if space && len(b) > from {
			b = append(b, ' ')
		}
		space = false
		b = utf8.AppendRune(b, unicode.ToLower(r))
	}
	return b
}

// unit returns a number in [0, 1) of 8 bytes of the hash and a seed.
func unit(hash []byte, seed uint64) float64 {
	x := binary.LittleEndian.Uint64(hash) + (seed+1)*0x9e3779b97f4a7c15
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	x ^= x >> 31
	return float64(x>>11) / (1 << 53)
}

// The splits.
const (
	Train   = "train"
	HeldOut = "held-out"
	Test    = "test"
)

// split returns the split of a document. It depends on the document and the
// shares alone.
func (s Splits) split(hash []byte) string {
	switch u := unit(hash[16:], s.Seed); {
	case u < s.Test:
		return Test
	case u < s.Test+s.HeldOut:
		return HeldOut
	}
	return Train
}

// copies returns how often a document is written to the training split.
func copies(weight float64, hash []byte, seed uint64) int {
	n := int(weight)
	if unit(hash[24:], seed) < weight-float64(n) {
		n++
	}
	return n
}
