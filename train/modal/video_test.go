package modal

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"mm-abi.org/mm/train"
)

// A video is represented by the means of the vectors of the halves of its
// frames between the markers of videos. Training the core on it does not change
// the projector.
func TestVideos(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	t.Parallel()
	dir := t.TempDir()
	r := encoding()
	r.Stop.Steps = 1
	run(t, r, filepath.Join(dir, "encoder"), false, 1)
	encoder := filepath.Join(dir, "encoder", train.LastFile)
	aligned, _ := run(t, aligning(encoder), filepath.Join(dir, "align"), false, 1)
	tune := tuning(filepath.Join(dir, "align", train.LastFile))
	tune.Data.Scene.Kinds, tune.Data.Late, tune.SeqLen, tune.Optimizer.WeightDecay = []string{"video"}, -1, 128, 0
	tune.Stop.Steps = 2
	tr, events := run(t, tune, filepath.Join(dir, "films"), false, 2)
	if l := events.losses(); len(l) == 0 || math.IsNaN(l[0]) {
		t.Errorf("losses %v", l)
	}
	if d, w := weights(tr, "projector of image"), weights(aligned, "projector of image"); !same(d, w) {
		t.Error("videos changed the projector")
	}

	next, err := New(context.Background(), tune, train.Options{From: ".", Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	p := next.Task
	p.Refresh()
	s := p.sense(Image)
	rows, cols := s.proj.rows(), s.proj.cols()
	e := p.held.turn(0)
	if len(e.Frames) != 8 || p.layout.places[Video] != 2*rows {
		t.Fatalf("%d frames, %d places", len(e.Frames), p.layout.places[Video])
	}
	it, err := s.video(e.Frames)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]float32, 2*rows*cols)
	for i, frame := range it.frames {
		if err := s.look(context.Background(), []item{frame}); err != nil {
			t.Fatal(err)
		}
		for k, v := range s.proj.result(nil, 0) {
			want[i/4*rows*cols+k] += v / 4
		}
	}
	b := newBatch(tune.BatchSize, tune.SeqLen)
	it.row, it.as = 1, Video
	b.items[Video] = []item{it}
	b.docs[1].first = 3
	if err := p.look(b); err != nil {
		t.Fatal(err)
	}
	if len(b.Embeds) != len(want) || len(b.Rows) != 2*rows || b.Rows[0] != int32(tune.SeqLen+3) || b.Rows[2*rows-1] != int32(tune.SeqLen+2+2*rows) {
		t.Fatalf("%d numbers in rows %v", len(b.Embeds), b.Rows)
	}
	for i, v := range want {
		if d := math.Abs(float64(b.Embeds[i] - v)); d > 1e-5 {
			t.Fatalf("number %d is %v, want %v", i, b.Embeds[i], v)
		}
	}
	if slices.Equal(want[:rows*cols], want[rows*cols:]) {
		t.Error("both halves are equal")
	}
	doc, ok := p.layout.single(Video, e.Turns[0])
	if open := p.tok.ID("<video>"); !ok || doc.tokens[doc.first-1] != open || doc.tokens[doc.first+2*rows] != p.tok.ID("</video>") {
		t.Error("no markers of videos")
	}
	if _, err := s.video(e.Frames[:1]); err == nil {
		t.Error("accepted a video of one frame")
	}
}

func same(a, b map[string][]float32) bool {
	for name, w := range a {
		if !slices.Equal(w, b[name]) {
			return false
		}
	}
	return len(a) == len(b)
}
