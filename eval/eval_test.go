package eval

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/qa"
	"mm-abi.org/mm/train/dataset/scene"
)

// oracle answers questions about learned inputs and draws learned prompts.
type oracle struct {
	build  *builds.Build
	known  map[string]string // an input and a question: the answer
	drawn  map[string][]byte // a prompt: the picture
	change func(answer string) string
	stop   runtimes.Stop
	asked  int
	clips  []string
}

func newOracle(media ...abi.Modality) *oracle {
	a := &builds.Assembly{Name: "b"}
	for _, m := range media {
		a.Modalities = append(a.Modalities, builds.ModalityPart{Modality: m, Projector: builds.Part{Name: string(m) + "-proj"}})
	}
	return &oracle{build: &builds.Build{Assembly: a}, known: map[string]string{}, drawn: map[string][]byte{}, stop: runtimes.StopEnd}
}

func (o *oracle) Build() *builds.Build { return o.build }

func (o *oracle) Answer(_ context.Context, req runner.Request, _ func(string) error) (*runner.Answer, error) {
	o.asked++
	if len(req.Outputs) > 0 {
		return &runner.Answer{Made: []runner.Made{{Data: o.drawn[req.Inputs[0].Text]}}}, nil
	}
	text, seen := req.Inputs[len(req.Inputs)-1].Text, ""
	if len(req.Inputs) > 1 {
		seen = fingerprint(req.Inputs[0])
		if req.Inputs[0].Path != "" {
			o.clips = append(o.clips, req.Inputs[0].Path)
		}
	}
	answer, ok := o.known[seen+text]
	if !ok {
		answer = "nobody knows"
	}
	if o.change != nil {
		answer = o.change(answer)
	}
	said := answer
	if most := req.Preferences.MaxTokens; len(said)+1 > most { // one token for each byte, and the end
		return &runner.Answer{Text: said[:most], Stop: runtimes.StopLength}, nil
	}
	return &runner.Answer{Text: said, Stop: o.stop}, nil
}

// fingerprint identifies an input by its content.
func fingerprint(p talk.Part) string {
	var b strings.Builder
	switch p.Type {
	case abi.Image:
		r, err := preprocess.DecodeImage(p.Data)
		if err != nil {
			return err.Error()
		}
		b.Write(r.Pix)
	case abi.Video:
		f, err := preprocess.OpenFrames(context.Background(), p.Path)
		if err != nil {
			return err.Error()
		}
		defer f.Close()
		for i := range f.Len() {
			r, err := f.At(context.Background(), i)
			if err != nil {
				return err.Error()
			}
			b.Write(r.Pix)
		}
	default:
		b.Write(p.Data)
	}
	return b.String()
}

// learn teaches the oracle the first n examples of the options.
func (o *oracle) learn(t *testing.T, n int, opt Options) {
	t.Helper()
	s, err := opt.open(o.build)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		e := s.turn(i)
		p, done, err := shown(e)
		if err != nil {
			t.Fatal(err)
		}
		key := fingerprint(p)
		for _, q := range e.Turns {
			o.known[key+q.Ask] = " " + strings.ToUpper(q.Answer)
		}
		if err := done(); err != nil {
			t.Fatal(err)
		}
	}
}

// The oracle is correct about images, clips and sounds; about other inputs, or none, it is not, and a
// truncated answer is wrong.
func TestSense(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: draws 72 examples")
	}
	o := newOracle(abi.Image, abi.Audio)
	opt := Options{N: 24, Seed: 5, Kinds: []string{"shapes", "charts", "video", "tones"}, Looks: []qa.Look{qa.Actual, qa.Another, qa.Nothing}}
	o.learn(t, 50, opt)
	last := 0
	opt.Progress = func(done, total int) {
		if done != last+1 || total != 72 {
			t.Errorf("%d of %d behind %d", done, total, last)
		}
		last = done
	}
	got, err := Sense(t.Context(), o, opt)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 6 || last != 72 {
		t.Fatalf("%d results behind %d examples", len(got), last)
	}
	kinds := map[string]bool{}
	for i, s := range got {
		if s.Look != opt.Looks[i/2] || s.Input != []qa.Medium{qa.Image, qa.Audio}[i%2] {
			t.Errorf("result %d is of %q, %s", i, s.Look, s.Input)
		}
		for _, score := range s.Scores {
			kinds[score.Kind] = true
			switch {
			case s.Look == qa.Actual && score.Right != score.N, s.Look == qa.Nothing && score.Right > 0, s.Look == qa.Another && score.N > 6 && score.Right == score.N:
				t.Errorf("%s of %s: %+v", s.Look.Name(), s.Input, score)
			}
		}
	}
	for _, k := range []string{"shapes/caption", "charts/value", "charts/value ±5%", "video/motion", "tones/caption"} {
		if !kinds[k] {
			t.Errorf("nothing is known of %s", k)
		}
	}
	for _, dir := range o.clips {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", dir, err)
		}
	}
	if len(o.clips) == 0 {
		t.Error("no clip was shown")
	}
	for name, change := range map[string]func(){
		"goes on":        func() { o.change = func(s string) string { return s + " and so on" } },
		"does not end":   func() { o.change, o.stop = nil, runtimes.StopLength },
		"something else": func() { o.change, o.stop = func(s string) string { return s[:len(s)-1] }, runtimes.StopEnd },
	} {
		change()
		got, err := Sense(t.Context(), o, Options{N: 8, Seed: 5, Kinds: []string{"shapes", "tones"}, Ask: []string{"*/caption"}})
		if err != nil || len(got) != 2 {
			t.Fatalf("%s: %v, %v", name, got, err)
		}
		for _, s := range got {
			if len(s.Scores) != 1 || s.Scores[0].Right != 0 || s.Scores[0].N != 4 {
				t.Errorf("%s: %+v", name, s)
			}
		}
	}
}

// A number read off a scale is scored twice: exactly, and within 5 %.
func TestSenseNear(t *testing.T) {
	o := newOracle(abi.Image)
	opt := Options{N: 30, Kinds: []string{"charts"}, Ask: []string{"charts/value"}}
	o.learn(t, 30, opt)
	o.change = func(s string) string {
		var v int
		fmt.Sscan(s, &v)
		return fmt.Sprint(v + 1)
	}
	got, err := Sense(t.Context(), o, opt)
	if err != nil || len(got) != 1 || len(got[0].Scores) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	exact, near := got[0].Scores[0], got[0].Scores[1]
	if exact.Right != 0 || near.Right == 0 || near.Right == near.N || near.Kind != "charts/value ±5%" || exact.N < 30 || near.N != exact.N {
		t.Errorf("one too much: %+v, %+v", exact, near)
	}
}

// The kinds of questions follow from the encoders of a build and the available speech.
func TestKinds(t *testing.T) {
	image, audio, both := []abi.Modality{abi.Image}, []abi.Modality{abi.Audio}, []abi.Modality{abi.Image, abi.Audio}
	for name, c := range map[string]struct {
		media  []abi.Modality
		opt    Options
		want   string // images; sounds
		refuse string
	}{
		"all":                    {both, Options{}, "[shapes charts words digits]; [tones events]", ""},
		"all with speech":        {audio, Options{Speech: "s", FSDD: "f"}, "[]; [tones events digits words human]", ""},
		"named":                  {both, Options{Kinds: []string{"charts:3", "events"}}, "[charts:3]; [events]", ""},
		"written":                {both, Options{Kinds: []string{"words"}}, "[words]; []", ""},
		"written and spoken":     {both, Options{Kinds: []string{"words:2"}, Speech: "s"}, "[words:2]; [words:2]", ""},
		"spoken":                 {both, Options{Kinds: []string{"audio/words", "image/digits"}, Speech: "s"}, "[digits]; [words]", ""},
		"a clip":                 {image, Options{Kinds: []string{"video"}}, "[video]; []", ""},
		"sounds without encoder": {image, Options{Kinds: []string{"tones"}}, "", `kind "tones" of examples: the build has no encoder`},
		"images without encoder": {audio, Options{Kinds: []string{"shapes"}}, "", `kind "shapes" of examples: the build has no encoder`},
		"no kind":                {both, Options{Kinds: []string{"smells"}}, "", `unknown kind "smells"`},
		"no kind of pictures":    {both, Options{Kinds: []string{"image/tones"}}, "", `unknown kind "image/tones"`},
		"nothing":                {nil, Options{}, "", "no encoder for images or sounds"},
	} {
		b := newOracle(c.media...).build
		p, s, err := c.opt.kinds(takes(b, qa.Image), takes(b, qa.Audio))
		if got := fmt.Sprintf("%v; %v", p, s); c.refuse == "" && (err != nil || got != c.want) {
			t.Errorf("%s: %s, %v, want %s", name, got, err, c.want)
		}
		if c.refuse != "" && (err == nil || !strings.Contains(err.Error(), c.refuse)) {
			t.Errorf("%s: %v, want %q", name, err, c.refuse)
		}
	}
	for name, opt := range map[string]Options{
		"no folder of speech": {N: 1, Kinds: []string{"audio/digits"}}, "no such folder": {N: 1, Kinds: []string{"human"}, FSDD: "nowhere"},
		"a weight": {N: 1, Kinds: []string{"tones:many"}}, "no question": {N: 2, Kinds: []string{"tones"}, Ask: []string{"tones/smell"}},
	} {
		if _, err := Sense(t.Context(), newOracle(abi.Audio), opt); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Another seed selects other examples; the same seed, the same ones.
func TestSeed(t *testing.T) {
	show := func(seed uint64) (out [2]string) {
		s, err := Options{Seed: seed}.open(newOracle(abi.Image, abi.Audio).build)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			p, _, err := shown(s.turn(i))
			if err != nil {
				t.Fatal(err)
			}
			out[i] = fingerprint(p)
		}
		return out
	}
	one, same, other := show(1), show(1), show(2)
	if one != same || one[0] == other[0] || one[1] == other[1] {
		t.Error("a seed is not its examples")
	}
}

// Both judges accept images that match the prompt and refuse those of another prompt; data that is not an
// image is an error.
func TestDraw(t *testing.T) {
	o := newOracle(abi.Image)
	src, err := scene.New(scene.Options{Split: scene.Held, Kinds: []string{scene.Shapes, scene.Charts, scene.Words}, Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		s := src.Make(i)
		e := qa.Picture(s)
		if o.drawn[s.Draw], err = encode(e.Raster); err != nil {
			t.Fatal(err)
		}
		for _, q := range e.Turns {
			o.known[fingerprint(talk.Part{Type: abi.Image, Data: o.drawn[s.Draw]})+q.Ask] = q.Answer
		}
	}
	dir := t.TempDir()
	opt := DrawOptions{N: 12, Kinds: []string{scene.Shapes, scene.Charts, scene.Words}, Ablate: true, Dir: dir}
	got, err := Draw(t.Context(), o, opt)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, j := range got {
		right, n := 0, 0
		for _, s := range j.Scores {
			right, n = right+s.Right, n+s.N
			kinds[string(j.Judge)+" "+s.Kind] = true
		}
		if (right == n) == (j.Canvas == Another) || n < 12 {
			t.Errorf("%s of %q: %d of %d: %+v", j.Judge, j.Canvas, right, n, j.Scores)
		}
	}
	for _, k := range []string{"pixels shapes/all", "pixels charts/all", "pixels charts/height ±5%", "eye shapes/caption", "eye words/read", "eye charts/value"} {
		if !kinds[k] {
			t.Errorf("nothing is known of %s", k)
		}
	}
	if len(got) != 6 || kinds["eye charts/read"] {
		t.Errorf("%d results of %v", len(got), kinds)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 12 || files[11].Name() != "0011.png" {
		t.Errorf("left are %v, %v", files, err)
	}
	for prompt := range o.drawn {
		o.drawn[prompt] = []byte("no picture")
	}
	if _, err := Draw(t.Context(), o, opt); err == nil || !strings.Contains(err.Error(), "image 0: decoding the image") {
		t.Errorf("no picture: %v", err)
	}
	if _, err := Draw(t.Context(), o, DrawOptions{N: 1, Kinds: []string{scene.Video}}); err == nil || !strings.Contains(err.Error(), "no prompt for images") {
		t.Errorf("a clip: %v", err)
	}
	if _, err := Draw(t.Context(), o, DrawOptions{N: 1, Kinds: []string{"smells"}}); err == nil {
		t.Error("a smell was drawn")
	}
}

// A difference is counted under its feature.
func TestCountShapes(t *testing.T) {
	circle := scene.Shape{Shape: "circle", Colour: "red", Place: "top", Size: "big"}
	star := scene.Shape{Shape: "star", Colour: "blue", Place: "left", Size: "small"}
	change := func(s scene.Shape, f func(*scene.Shape)) scene.Shape { f(&s); return s }
	for name, c := range map[string]struct {
		seen []scene.Shape
		want string // all count shape colour place size
	}{
		"as requested":      {[]scene.Shape{star, circle}, "1 1 2 2 2 2"},
		"another size":      {[]scene.Shape{star, change(circle, func(s *scene.Shape) { s.Size = "small" })}, "1 1 2 2 2 1"},
		"another colour":    {[]scene.Shape{star, change(circle, func(s *scene.Shape) { s.Colour = "green" })}, "0 1 2 1 2 2"},
		"another place":     {[]scene.Shape{change(star, func(s *scene.Shape) { s.Place = "top" }), circle}, "0 1 2 2 1 2"},
		"another shape":     {[]scene.Shape{change(star, func(s *scene.Shape) { s.Shape = "ring" }), circle}, "0 1 1 2 2 2"},
		"places exchanged":  {[]scene.Shape{change(star, func(s *scene.Shape) { s.Place = "top" }), change(circle, func(s *scene.Shape) { s.Place = "left" })}, "0 1 2 2 0 2"},
		"one":               {[]scene.Shape{star}, "0 0 1 1 1 1"},
		"one more":          {[]scene.Shape{star, circle, star}, "0 0 2 2 2 2"},
		"none":              {nil, "0 0 0 0 0 0"},
		"the same one only": {[]scene.Shape{circle, circle}, "0 1 1 1 1 1"},
	} {
		tally := map[string]int{}
		counted := train.Tally{}
		countShapes(counted, []scene.Shape{circle, star}, c.seen)
		for _, s := range counted.Scores() {
			tally[s.Kind] = s.Right
		}
		got := fmt.Sprint(tally["shapes/all"], tally["shapes/count"], tally["shapes/shape"], tally["shapes/colour"], tally["shapes/place"], tally["shapes/size"])
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// Heights are correct within a twentieth of the highest, from the left.
func TestCountBars(t *testing.T) {
	want := []scene.Bar{{Value: 10}, {Value: 40}}
	for name, c := range map[string]struct {
		seen []scene.MeasuredBar
		want string // all count height
	}{
		"as requested": {[]scene.MeasuredBar{{Height: 250}, {Height: 1000}}, "1 1 2"},
		"nearly":       {[]scene.MeasuredBar{{Height: 300}, {Height: 950}}, "1 1 2"},
		"too high":     {[]scene.MeasuredBar{{Height: 301}, {Height: 1000}}, "0 1 1"},
		"too low":      {[]scene.MeasuredBar{{Height: 199}, {Height: 1000}}, "0 1 1"},
		"exchanged":    {[]scene.MeasuredBar{{Height: 1000}, {Height: 250}}, "0 1 0"},
		"a bar less":   {[]scene.MeasuredBar{{Height: 250}}, "0 0 1"},
		"a bar more":   {[]scene.MeasuredBar{{Height: 250}, {Height: 1000}, {Height: 3}}, "0 0 2"},
	} {
		tally := map[string]int{}
		counted := train.Tally{}
		countBars(counted, want, c.seen)
		for _, s := range counted.Scores() {
			tally[s.Kind] = s.Right
		}
		if got := fmt.Sprint(tally["charts/all"], tally["charts/count"], tally["charts/height ±5%"]); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// Each case is usable: its input exists or is generated by an earlier case, its answer is that of the
// questions, and a correct image is judged correct.
func TestCases(t *testing.T) {
	for seed := range uint64(3) {
		all, err := Cases(seed)
		if err != nil {
			t.Fatal(err)
		}
		made, what := map[string]bool{}, ""
		for _, c := range all {
			what += c.What + " "
			if (c.Input == "") == (c.Output == "") || c.Ask == "" || c.File == "" || (c.Data != nil) == made[c.File] && c.Input != "" || c.Answer == "" && c.What != "say" {
				t.Errorf("%s: %+v", c.What, c)
			}
			if c.Output != "" {
				made[c.File] = true
			}
			if c.What != "say" && (!c.Right(" "+strings.ToUpper(c.Answer)) || c.Right(c.Answer+"!")) {
				t.Errorf("%s: what is right is not known", c.What)
			}
			if c.What != "draw" {
				continue
			}
			src, err := scene.New(scene.Options{Split: scene.Held, Seed: seed, Kinds: []string{scene.Shapes}, Plain: true})
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range []bool{true, false} {
				png, err := encode(qa.Picture(src.Make(i)).Raster)
				if err != nil {
					t.Fatal(err)
				}
				said, right, err := c.Seen(png)
				if err != nil || right != want || want && said != c.Answer {
					t.Errorf("seed %d, scene %d: %q, %v, %v; asked for %q", seed, i, said, right, err, c.Answer)
				}
			}
			if _, _, err := c.Seen([]byte("none")); err == nil {
				t.Error("no picture is one")
			}
		}
		if what != "caption question chart digit draw look say listen " {
			t.Errorf("seed %d: %s", seed, what)
		}
	}
}
