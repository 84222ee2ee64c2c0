package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// sentenceModel is the part of a SentencePiece model in use.
type sentenceModel struct {
	pieces   []Token
	unigram  bool
	bytes    bool // characters without a piece become bytes
	suffix   bool // a space is at the end of a word's piece
	charsmap []byte
	spaces   bool // several spaces are one
}

// Fields of the messages ModelProto, SentencePiece, TrainerSpec and NormalizerSpec.
const (
	spPieces, spTrainer, spNormalizer             = 1, 2, 3
	spText, spScore, spType                       = 1, 2, 3
	spModelType, spSuffix, spFallback             = 3, 24, 35
	spCharsmap, spExtraSpaces, spUnigram, spFault = 2, 4, 1, "damaged SentencePiece model"
)

// readSentenceModel reads a SentencePiece model. Absent fields have the defaults of their
// definition.
func readSentenceModel(data []byte) (*sentenceModel, error) {
	m := &sentenceModel{unigram: true, spaces: true}
	err := fields(data, func(n protowire.Number, v uint64, b []byte) error {
		switch n {
		case spPieces:
			if len(m.pieces) == maxTokens {
				return fmt.Errorf("more than %d pieces", maxTokens)
			}
			t := Token{Type: Normal}
			m.pieces = append(m.pieces, t)
			p := &m.pieces[len(m.pieces)-1]
			return fields(b, func(n protowire.Number, v uint64, b []byte) error {
				switch n {
				case spText:
					p.Text = string(b)
				case spScore:
					p.Score = math.Float32frombits(uint32(v))
				case spType:
					p.Type = Type(min(v, math.MaxInt32))
				}
				return nil
			})
		case spTrainer:
			return fields(b, func(n protowire.Number, v uint64, _ []byte) error {
				switch n {
				case spModelType:
					m.unigram = v == spUnigram
				case spSuffix:
					m.suffix = v != 0
				case spFallback:
					m.bytes = v != 0
				}
				return nil
			})
		case spNormalizer:
			return fields(b, func(n protowire.Number, v uint64, b []byte) error {
				switch n {
				case spCharsmap:
					m.charsmap = b
				case spExtraSpaces:
					m.spaces = v != 0
				}
				return nil
			})
		}
		return nil
	})
	return m, err
}

// fields calls read for each field of a message, with its number or its bytes.
func fields(data []byte, read func(n protowire.Number, v uint64, b []byte) error) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errors.New(spFault)
		}
		data = data[n:]
		var v uint64
		var b []byte
		switch kind {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(data)
		case protowire.Fixed32Type:
			var w uint32
			w, n = protowire.ConsumeFixed32(data)
			v = uint64(w)
		case protowire.BytesType:
			b, n = protowire.ConsumeBytes(data)
		default:
			n = protowire.ConsumeFieldValue(number, kind, data)
		}
		if n < 0 {
			return errors.New(spFault)
		}
		if err := read(number, v, b); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// sigLIP replaces the parts of the file by those of SigLIP's class: a SentencePiece model
// on text without punctuation and, unless the configuration keeps cases, in lower case.
func (h *hfFile) sigLIP(c *hfConfig) error {
	if h.pieces == nil {
		return errors.New("missing spiece.model, which SiglipTokenizer reads")
	}
	m, err := readSentenceModel(h.pieces)
	if err != nil {
		return fmt.Errorf("spiece.model: %w", err)
	}
	no := false
	*h = hfFile{pieces: h.pieces, config: c, Model: hfModel{Type: "Unigram", FuseUnk: true}}
	if err := h.spieces(m); err != nil {
		return fmt.Errorf("spiece.model: %w", err)
	}
	steps := []hfStep{{Type: "Punctuation"}, {Type: "WhiteSpace"}, {Type: "Strip", Left: new(bool)}, {Type: charsmapStep, Charsmap: m.charsmap}}
	*steps[2].Left = true
	if c.Lower == nil || *c.Lower {
		steps = append([]hfStep{{Type: "LowercaseSigma"}}, steps...)
	}
	runs, edge := " {2,}", hfStep{Type: "Strip", Left: new(bool)}
	one := hfStep{Type: "Replace", Content: " ", Pattern: &hfPattern{Regex: &runs}}
	h.Normalizer = &hfStep{Type: "Sequence", Normalizers: append(steps, one, edge)}
	h.PreTokenizer = &hfStep{Type: "Metaspace", Replacement: spaceMark, PrependScheme: "first", Split: &no}
	h.named(c, map[string]string{"unk_token": "<unk>", "eos_token": "</s>", "pad_token": "</s>"})
	for _, key := range []string{"unk_token", "eos_token", "pad_token"} {
		a := c.names[key]
		if _, ok := h.Model.Vocab.ids[a.Content]; a.Content == "" || !ok {
			return fmt.Errorf("%s %q is not a piece of spiece.model", key, a.Content)
		}
	}
	text, end := hfPiece{Sequence: &hfPart{}}, hfPiece{SpecialToken: &hfPart{ID: c.names["eos_token"].Content}}
	h.PostProcessor = &hfStep{Type: "TemplateProcessing", Single: []hfPiece{text, end}, Pair: []hfPiece{text, end, text, end}}
	return nil
}

// spieces sets the model of the file.
func (h *hfFile) spieces(m *sentenceModel) error {
	switch table, err := parseCharsmap(m.charsmap); {
	case !m.unigram || m.bytes || m.suffix || !m.spaces:
		return errors.New("unsupported SentencePiece model: want Unigram without byte_fallback and treat_whitespace_as_suffix, with remove_extra_whitespaces")
	case err != nil:
		return err
	case table.normalize(spaceMark+"a") != " a":
		return errors.New("unsupported normalizer, want one that maps \u2581 to a space, such as nmt_nfkc")
	}
	v := &h.Model.Vocab
	v.ids, v.scores = make(map[string]int, len(m.pieces)), make([]float32, len(m.pieces))
	for id, p := range m.pieces {
		if other, twice := v.ids[p.Text]; twice {
			return fmt.Errorf("duplicate text of pieces %d and %d: %.40q", other, id, p.Text)
		}
		v.ids[p.Text], v.scores[id] = id, p.Score
		switch p.Type {
		case Normal:
		case Unknown:
			if h.Model.UnkID != nil {
				return fmt.Errorf("two unknown pieces %d and %d", *h.Model.UnkID, id)
			}
			h.Model.UnkID = &id
		case Control:
			if !strings.ContainsAny(p.Text, punctuation) {
				return fmt.Errorf("unsupported control piece %.40q, want one with punctuation, which no text has", p.Text)
			}
		default:
			return fmt.Errorf("unsupported type %d of piece %d", p.Type, id)
		}
	}
	if h.Model.UnkID == nil {
		return errors.New("no unknown piece")
	}
	return nil
}
