package sound

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"mm-abi.org/mm/core/mmap"
)

// PackFile is the name of the speech file in its folder.
const PackFile = "speech.pack"

// A pack is packMagic, the length of the index in four bytes, the index as
// JSON, and the samples: 16 bits each, little endian.
const (
	packMagic = "MMSPEEC1"
	maxIndex  = 64 << 20
)

// Take is one recording of a text.
type Take struct {
	Text    string `json:"text"`
	Voice   string `json:"voice"`   // accent and variant: "en-us+f2"
	Variant string `json:"variant"` // "f2"
	Pitch   int    `json:"pitch"`   // 0 to 99
	Speed   int    `json:"speed"`   // words per minute
	First   int    `json:"first"`   // index of its first sample
	Samples int    `json:"samples"`
}

// index is the index of a pack.
type index struct {
	Engine string `json:"engine"` // output of espeak-ng --version
	Rate   int    `json:"rate"`
	SHA256 string `json:"sha256"` // of the samples' bytes
	Takes  []Take `json:"takes"`
}

// Pack is a mapped speech file.
type Pack struct {
	Engine string
	Takes  []Take

	pcm []byte
	m   *mmap.Map
}

// OpenPack maps a speech file and checks the digest of its samples.
func OpenPack(path string) (*Pack, error) {
	m, err := mmap.Open(path)
	if err != nil {
		return nil, err
	}
	p, err := parsePack(m.Data)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	p.m = m
	return p, nil
}

func parsePack(data []byte) (*Pack, error) {
	head := len(packMagic) + 4
	if len(data) < head || string(data[:len(packMagic)]) != packMagic {
		return nil, errors.New("not a speech file")
	}
	size := int64(binary.LittleEndian.Uint32(data[len(packMagic):]))
	if err := checkIndex(size, int64(len(data)-head)); err != nil {
		return nil, err
	}
	var x index
	if err := json.Unmarshal(data[head:head+int(size)], &x); err != nil {
		return nil, fmt.Errorf("reading the index: %w", err)
	}
	pcm := data[head+int(size):]
	if x.Rate != Rate {
		return nil, fmt.Errorf("sample rate %d, want %d", x.Rate, Rate)
	}
	for i, t := range x.Takes {
		if t.First < 0 || t.Samples < 1 || t.Samples > MaxSamples || t.First > len(pcm)/2-t.Samples {
			return nil, fmt.Errorf("take %d out of range: %d samples from %d, of %d", i, t.Samples, t.First, len(pcm)/2)
		}
	}
	if sum := sha256.Sum256(pcm); hex.EncodeToString(sum[:]) != x.SHA256 {
		return nil, fmt.Errorf("digest mismatch of samples: got %x, want %s", sum, x.SHA256)
	}
	return &Pack{Engine: x.Engine, Takes: x.Takes, pcm: pcm}, nil
}

// checkIndex checks the size of an index in a file with rest bytes after the head.
func checkIndex(size, rest int64) error {
	if size > maxIndex || size > rest {
		return fmt.Errorf("index of %d bytes, want at most %d", size, min(maxIndex, rest))
	}
	return nil
}

// samples returns the samples of a take.
func (p *Pack) samples(t *Take) []float64 {
	out := make([]float64, t.Samples)
	for i := range out {
		out[i] = float64(int16(binary.LittleEndian.Uint16(p.pcm[2*(t.First+i):]))) / (1 << 15)
	}
	return out
}

// PCM returns the samples of a take, −1 to 1.
func (p *Pack) PCM(t Take) []float32 {
	v := p.samples(&t)
	out := make([]float32, len(v))
	for i := range v {
		out[i] = float32(v[i])
	}
	return out
}

// Close unmaps the file.
func (p *Pack) Close() error {
	if p.m == nil {
		return nil
	}
	return p.m.Close()
}

// WritePack writes takes, whose First and Samples it sets, and their samples as
// a file for [OpenPack]. engine is the synthesizer.
func WritePack(w io.Writer, engine string, takes []Take, samples [][]int16) error {
	var pcm bytes.Buffer
	first := 0
	for i, v := range samples {
		takes[i].First, takes[i].Samples = first, len(v)
		first += len(v)
		for _, x := range v {
			pcm.Write(binary.LittleEndian.AppendUint16(nil, uint16(x)))
		}
	}
	sum := sha256.Sum256(pcm.Bytes())
	text, err := json.Marshal(index{engine, Rate, hex.EncodeToString(sum[:]), takes})
	if err != nil {
		return err
	}
	head := binary.LittleEndian.AppendUint32([]byte(packMagic), uint32(len(text)))
	for _, b := range [][]byte{head, text, pcm.Bytes()} {
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}
