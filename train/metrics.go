package train

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"mm-abi.org/mm/internal/fsx"
)

// MetricsFile is the log of a run in its folder, written by [Log].
const MetricsFile = "metrics.jsonl"

// Log writes every event as one JSON line, {"event":"step",…}.
type Log struct{ W io.Writer }

// Observe writes e.
func (l Log) Observe(e Event) error {
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	line := append([]byte(`{"event":"`+e.kind()+`",`), body[1:]...)
	_, err = l.W.Write(append(line, '\n'))
	return err
}

// record holds the fields common to all lines.
type record struct {
	Event  string  `json:"event"`
	Step   int     `json:"step"`
	Tokens int     `json:"tokens"`
	Loss   float64 `json:"loss"`
}

// maxRecord bounds a line of a log in bytes.
const maxRecord = 1 << 20

// Point is a loss in nats after a number of tokens.
type Point struct {
	Tokens int
	Loss   float64
}

// ReadCurves reads the loss curves from a run's log: of training, the mean
// since the previous report, and on held-out data.
func ReadCurves(r io.Reader) (training, held []Point, err error) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxRecord+1) // with its newline
	for n := 1; s.Scan(); n++ {
		var e record
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			return nil, nil, fmt.Errorf("reading metrics: line %d: %w", n, err)
		}
		switch e.Event {
		case Step{}.kind():
			training = append(training, Point{e.Tokens, e.Loss})
		case Evaluated{}.kind():
			held = append(held, Point{e.Tokens, e.Loss})
		}
	}
	if err := s.Err(); err != nil {
		return nil, nil, fmt.Errorf("reading metrics: %w", err)
	}
	return training, held, nil
}

// TrimMetrics removes from the log at path the events after step, which a
// resumed run repeats, and a truncated line. A missing log is not an error.
func TrimMetrics(path string, step int) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return fsx.Replace(path, 0o644, func(w io.Writer) error {
		s := bufio.NewScanner(f)
		s.Buffer(nil, maxRecord+1) // with its newline
		s.Split(wholeLines)
		for s.Scan() {
			var e record
			if json.Unmarshal(s.Bytes(), &e) != nil || e.Step > step {
				continue
			}
			if _, err := w.Write(s.Bytes()); err != nil {
				return err
			}
		}
		return s.Err()
	})
}

// wholeLines splits into complete lines with their ends.
func wholeLines(data []byte, _ bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	return 0, nil, nil
}
