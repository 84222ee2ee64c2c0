package main

import (
	"bytes"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"

	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/core/preprocess"
)

// mediaFiles are a picture, a sound of a fifth of a second at 8 kHz, others in
// compressed files and an array, by their names.
func mediaFiles() (map[string][]byte, error) {
	m := image.NewRGBA(image.Rect(0, 0, 40, 20))
	for i := range 800 {
		m.SetRGBA(i%40, i/40, color.RGBA{uint8(6 * (i % 40)), uint8(12 * (i / 40)), 99, 255})
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		return nil, err
	}
	wave := &preprocess.Wave{Rate: 8000, Samples: make([]float32, 1600)}
	for i := range wave.Samples {
		wave.Samples[i] = float32(i%16)/16 - 0.5
	}
	array, err := npy.Encode(&npy.Array{Type: "u1", Shape: []int{1, 32, 32, 3}, Data: bytes.Repeat([]byte{7}, 3*32*32)})
	if err != nil {
		return nil, err
	}
	var golden struct {
		Sounds []struct {
			Name string
			File []byte
		}
	}
	data, err := os.ReadFile(filepath.Join("..", "..", "core", "preprocess", "codec", "testdata", "sounds.json"))
	if err == nil {
		err = json.Unmarshal(data, &golden)
	}
	files := map[string][]byte{"p.png": b.Bytes(), "s.wav": preprocess.EncodeWAV(wave), "a.npy": array, "cut.png": b.Bytes()[:60]}
	for _, s := range golden.Sounds {
		switch s.Name {
		case "flac 24 kHz":
			files["s.flac"], files["cut.flac"] = s.File, s.File[:900]
		case "mp3 44.1 kHz stereo":
			files["s.mp3"] = s.File
		case "ogg 8 kHz":
			files["s.ogg"] = s.File
		}
	}
	return files, err
}

// writeMedia writes the files of mediaFiles.
func writeMedia(ts *testscript.TestScript, neg bool, args []string) {
	files, err := mediaFiles()
	ts.Check(err)
	for name, data := range files {
		ts.Check(os.WriteFile(ts.MkAbs(name), data, 0o644))
	}
}
