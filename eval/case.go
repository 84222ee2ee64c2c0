package eval

import (
	"fmt"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/train/dataset/qa"
	"mm-abi.org/mm/train/dataset/scene"
	"mm-abi.org/mm/train/dataset/sound"
)

// Case is one thing to show of what a build can: a question about a file, or a
// file to be made.
type Case struct {
	What   string
	Input  abi.Modality // of the file that is asked about; "": words alone
	Output abi.Modality // of the file that is made; "": words
	File   string       // the file's name
	Data   []byte       // of what is asked about; nil: an earlier case has made it
	Ask    string
	Answer string // what is right; of a picture in words

	shapes []scene.Shape
}

// Right reports whether what was said is the answer.
func (c Case) Right(said string) bool { return qa.Turn{Answer: c.Answer}.Correct(said) }

// Seen is what the pixels of a picture show that was made, in words, and whether
// each shape that was asked for is there in its colour and its place, and nothing
// else.
func (c Case) Seen(png []byte) (said string, right bool, err error) {
	r, err := preprocess.DecodeImage(png)
	if err != nil {
		return "", false, fmt.Errorf("reading what was drawn: %w", err)
	}
	seen := visible(r)
	right = len(seen) == len(c.shapes)
	for i, k := range pair(c.shapes, seen) {
		right = right && k >= 0 && alike(c.shapes[i], seen[k]) == 3
	}
	return described(seen), right, nil
}

// described is shapes in words.
func described(shapes []scene.Shape) string {
	var out []string
	for _, s := range shapes {
		out = append(out, fmt.Sprintf("%s %s, %s", s.Colour, s.Shape, s.Place))
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, "; ")
}

// Cases are a caption, a question about the same picture, one about a chart, a
// spoken digit, a picture to draw and a number to speak; what was made is looked
// at and listened to by the build that made it. Pictures and voice are held out.
// Another seed, other pictures.
func Cases(seed uint64) ([]Case, error) {
	make := func(kind string, plain bool) (scene.Scene, error) {
		src, err := scene.New(scene.Options{Split: scene.Held, Seed: seed, Kinds: []string{kind}, Plain: plain})
		if err != nil {
			return scene.Scene{}, err
		}
		return src.Make(0), nil
	}
	shapes, err := make(scene.Shapes, false)
	if err != nil {
		return nil, err
	}
	chart, err := make(scene.Charts, false)
	if err != nil {
		return nil, err
	}
	asked, err := make(scene.Shapes, true)
	if err != nil {
		return nil, err
	}
	var out []Case
	about := func(what, file string, s scene.Scene, kind string) error {
		png, err := encode(&preprocess.Raster{W: s.W, H: s.H, C: 3, Pix: s.RGB})
		for _, q := range s.Questions {
			if q.Kind == kind {
				out = append(out, Case{What: what, Input: abi.Image, File: file, Data: png, Ask: q.Ask, Answer: q.Answer})
			}
		}
		return err
	}
	for _, q := range []struct {
		what, file string
		s          scene.Scene
		kind       string
	}{{"caption", "picture.png", shapes, scene.AskCaption}, {"question", "picture.png", shapes, scene.AskPlace}, {"chart", "chart.png", chart, scene.AskHighest}} {
		if err := about(q.what, q.file, q.s, q.kind); err != nil {
			return nil, err
		}
	}
	wav, digit := sound.Spoken()
	number := fmt.Sprint((4 + seed) % 10)
	const drawn, said, which = "drawn.png", "said.wav", "which digit is spoken?"
	return append(out,
		Case{What: "digit", Input: abi.Audio, File: "heard.wav", Data: wav, Ask: which, Answer: digit},
		Case{What: "draw", Output: abi.Image, File: drawn, Ask: asked.Draw, Answer: described(asked.Truth.Shapes), shapes: asked.Truth.Shapes},
		Case{What: "look", Input: abi.Image, File: drawn, Ask: "what is in the picture?", Answer: asked.Caption},
		Case{What: "say", Output: abi.Audio, File: said, Ask: "say " + number},
		Case{What: "listen", Input: abi.Audio, File: said, Ask: which, Answer: number},
	), nil
}
