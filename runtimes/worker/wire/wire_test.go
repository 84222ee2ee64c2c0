package wire_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/worker/wire"
)

func TestFrames(t *testing.T) {
	var b bytes.Buffer
	w := wire.NewWriter(&b)
	in := map[string]runtimes.Tensor{
		"x": {Type: runtimes.Float32, Shape: []int64{2}, Data: []byte("12345678")},
		"y": {Type: runtimes.Int8, Shape: []int64{3 << 20}, Data: bytes.Repeat([]byte{7}, 3<<20)},
	}
	list, payload, err := wire.Tensors(in, nil, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(wire.KindRun, 9, &wire.Call{Room: &wire.Room{At: 1, Size: 2}, Tensors: list}, payload...); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(wire.KindBeat, 0, nil); err != nil {
		t.Fatal(err)
	}
	f, err := wire.Read(&b, 0)
	if err != nil || f.Kind != wire.KindRun || f.ID != 9 {
		t.Fatal(f, err)
	}
	var req wire.Call
	if err := f.Decode(&req); err != nil {
		t.Fatal(err)
	}
	if req.Room == nil || *req.Room != (wire.Room{At: 1, Size: 2}) {
		t.Errorf("the room is %+v", req.Room)
	}
	got, err := wire.Unpacked(req.Tensors, f.Payload, nil, nil)
	if !reflect.DeepEqual(in, got) || err != nil {
		t.Errorf("%d tensors, %v", len(got), err)
	}
	if f, err = wire.Read(&b, 0); err != nil || f.Kind != wire.KindBeat || f.Head != nil {
		t.Error(f, err)
	}
	if _, err = wire.Read(&b, 0); err != io.EOF {
		t.Error(err)
	}
}

func TestFramesThatAreNone(t *testing.T) {
	for name, text := range map[string]string{
		"half a header":     "MMW1\x01",
		"another magic":     "MMW2\x01\x00\x00\x00" + strings.Repeat("\x00", 16),
		"padding":           "MMW1\x01\x00\x01\x00" + strings.Repeat("\x00", 16),
		"no kind":           "MMW1\x00\x00\x00\x00" + strings.Repeat("\x00", 16),
		"an unknown kind":   "MMW1\x63\x00\x00\x00" + strings.Repeat("\x00", 16),
		"a head too large":  "MMW1\x01\x00\x00\x00" + strings.Repeat("\x00", 8) + "\xff\xff\xff\xff\x00\x00\x00\x00",
		"payload too large": "MMW1\x01\x00\x00\x00" + strings.Repeat("\x00", 12) + "\x01\x10\x00\x00" + strings.Repeat("x", 5000),
		"cut short":         "MMW1\x01\x00\x00\x00" + strings.Repeat("\x00", 12) + "\x00\x10\x00\x00" + strings.Repeat("x", 4095),
	} {
		if f, err := wire.Read(strings.NewReader(text), 4096); err == nil || err == io.EOF {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
	text := "MMW1\x01\x00\x00\x00" + strings.Repeat("\x00", 12) + "\x00\x10\x00\x00" + strings.Repeat("x", 4096)
	if _, err := wire.Read(strings.NewReader(text), 4096); err != nil {
		t.Errorf("the largest that may be: %v", err)
	}
}

// A frame with a large announced length and little data allocates little.
func TestAnnounced(t *testing.T) {
	text := "MMW1\x01\x00\x00\x00" + strings.Repeat("\x00", 12) + "\x00\x00\x00\x40"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := wire.Read(strings.NewReader(text), 0); err == nil {
		t.Error("1 GiB of nothing")
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
		t.Errorf("%d bytes were allocated for a frame that did not come", n)
	}
}

func TestFaults(t *testing.T) {
	for _, err := range []error{runtimes.ErrFull, runtimes.ErrClosed, runtimes.ErrTime, context.Canceled, context.DeadlineExceeded} {
		wrapped := fmt.Errorf("doing it: %w", err)
		if got := wire.NewFault(wrapped).Err(); !errors.Is(got, err) || got.Error() != wrapped.Error() {
			t.Errorf("%v arrives as %v", wrapped, got)
		}
	}
	u := &runtimes.Unavailable{What: "x", Why: "y", Hint: "z"}
	var got *runtimes.Unavailable
	if err := wire.NewFault(fmt.Errorf("at: %w", u)).Err(); !errors.As(err, &got) || *got != *u {
		t.Errorf("%v", err)
	}
	if wire.NewFault(nil).Err() != nil || wire.NewFault(errors.New("x")).Err().Error() != "x" {
		t.Error("no fault, or a plain one")
	}
}

func TestPositions(t *testing.T) {
	in := []runtimes.Positions{{Tokens: []int32{1, -2}}, {Vectors: []float32{0.5, -1}}, {}}
	runs, payload := wire.Feed(in)
	b := bytes.Join(payload, nil)
	got, err := wire.Fed(runs, b)
	if d := cmp.Diff(in, got); d != "" || err != nil {
		t.Error(d, err)
	}
	for name, runs := range map[string][]wire.Run{
		"too few": runs[:1], "negative": {{Tokens: -1, Numbers: 5}}, "too many": {{Tokens: 5}}, "far too many": {{Tokens: 1 << 62, Numbers: 1 << 62}},
	} {
		if got, err := wire.Fed(runs, b); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestTensorsThatAreNone(t *testing.T) {
	x := wire.Tensor{Name: "x", Type: runtimes.Uint8, Shape: []int64{2}, Bytes: 2}
	for name, list := range map[string][]wire.Tensor{
		"twice": {x, x}, "too few": {x}, "negative": {{Name: "x", Type: runtimes.Uint8, Shape: []int64{4}, Bytes: -4}},
		"too many":      {{Name: "x", Type: runtimes.Uint8, Shape: []int64{5}, Bytes: 5}},
		"another shape": {{Name: "x", Type: runtimes.Uint8, Shape: []int64{3}, Bytes: 4}},
		"no type":       {{Name: "x", Type: "int5", Shape: []int64{4}, Bytes: 4}},
		"no room":       {{Name: "x", Type: runtimes.Uint8, Shape: []int64{4}, Bytes: 4, Shared: true}},
	} {
		if got, err := wire.Unpacked(list, []byte("abcd"), nil, nil); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	shared := func(at int64, n int) wire.Tensor {
		return wire.Tensor{Name: "x", Type: runtimes.Uint8, Shape: []int64{int64(n)}, Bytes: n, Shared: true, At: at}
	}
	second := shared(0, 40)
	second.Name = "y"
	for name, list := range map[string][]wire.Tensor{
		"before the room": {shared(-1, 1)}, "across its end": {shared(60, 5)}, "behind it": {shared(1<<62, 1)}, "larger than it": {shared(0, 65)},
		"negative": {shared(0, -1)}, "one place, many tensors": {shared(0, 40), second},
	} {
		got, err := wire.Unpacked(list, nil, &wire.Room{At: 128, Size: 64}, func(at, n int64) ([]byte, error) {
			if at < 0 || n < 0 || at+n > 64 {
				t.Errorf("%s: %d bytes at %d are asked for", name, n, at)
				return nil, io.EOF
			}
			return make([]byte, n), nil
		})
		if err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Tensors are adjacent and aligned in a room; those that do not fit go into the payload.
func TestRoom(t *testing.T) {
	room := &wire.Room{At: 4096, Size: 192}
	memory := make([]byte, room.Size)
	in := map[string]runtimes.Tensor{
		"a": {Type: runtimes.Uint8, Shape: []int64{65}, Data: bytes.Repeat([]byte{1}, 65)},
		"b": {Type: runtimes.Uint8, Shape: []int64{70}, Data: bytes.Repeat([]byte{2}, 70)},
		"c": {Type: runtimes.Uint8, Shape: []int64{3}, Data: []byte{3, 3, 3}},
		"d": {Type: runtimes.Uint8, Shape: []int64{0}},
	}
	list, payload, err := wire.Tensors(in, room, 0, func(at int64, b []byte) error {
		if at%64 != 0 {
			t.Errorf("a place of %d", at)
		}
		copy(memory[at:], b)
		return nil
	})
	if err != nil || len(payload) != 2 || !list[0].Shared || list[1].Shared || !list[2].Shared {
		t.Fatal(list, len(payload), err)
	}
	got, err := wire.Unpacked(list, bytes.Join(payload, nil), room, func(at, n int64) ([]byte, error) { return memory[at : at+n], nil })
	if d := cmp.Diff(in, got, cmpopts.EquateEmpty()); d != "" || err != nil {
		t.Error(d, err)
	}
}

func FuzzFrames(f *testing.F) {
	var b bytes.Buffer
	w := wire.NewWriter(&b)
	list, payload, _ := wire.Tensors(map[string]runtimes.Tensor{"x": {Type: runtimes.Uint8, Shape: []int64{2}, Data: []byte("ab")}}, nil, 0, nil)
	w.Write(wire.KindHello, 0, wire.Hello{Version: 1})
	w.Write(wire.KindRan, 1, &wire.Call{Room: &wire.Room{At: 5, Size: 6}, Tensors: list}, payload...)
	runs, payload := wire.Feed([]runtimes.Positions{{Tokens: []int32{1}}, {Vectors: []float32{2}}})
	w.Write(wire.KindRequest, 2, wire.Request{Op: wire.OpFeed, Feed: runs}, payload...)
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		for r := bytes.NewReader(b); ; {
			frame, err := wire.Read(r, 1<<16)
			if err != nil {
				return
			}
			var req wire.Request
			if frame.Decode(&req) == nil {
				if in, err := wire.Fed(req.Feed, frame.Payload); err == nil && len(in) != len(req.Feed) {
					t.Error("positions are lost")
				}
			}
			var reply wire.Reply
			if frame.Decode(&reply) == nil {
				reply.Fault.Err()
			}
			var call wire.Call
			if frame.Decode(&call) == nil {
				out, err := wire.Unpacked(call.Tensors, frame.Payload, nil, nil)
				for name, x := range out {
					if err == nil && x.Check() != nil {
						t.Errorf("tensor %s passes and is %v", name, x.Check())
					}
				}
			}
		}
	})
}
