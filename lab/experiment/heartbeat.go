// Package heartbeat says whether a run is alive: a line every few minutes of how
// far it is, which may be copied to wherever somebody watches.
package experiment

import (
	"time"

	"mm-abi.org/mm/lab/records"
	"mm-abi.org/mm/lab/telemetry"
)

// Stale is how old the last line of a run that is alive may be.
const StaleAfter = 10 * time.Minute

// Beat is one line.
type Beat struct {
	Time      string            `json:"time"` // RFC 3339
	Run       string            `json:"run"`
	Rows      int               `json:"rows"`  // of the chain
	Event     string            `json:"event"` // of its last row
	Hash      string            `json:"hash"`  // hex SHA-256 of it
	Iteration int               `json:"iteration"`
	Failures  int               `json:"failures"` // in a row
	Reading   telemetry.Reading `json:"reading"`
	Simulated bool              `json:"simulated,omitempty"`
}

// Status is what the last line tells.
type Status struct {
	Beat
	Beats int    `json:"beats"`
	Age   string `json:"age"`
	Alive bool   `json:"alive"` // it neither stopped nor fell silent
}

// Read judges the heartbeat in the file at path, which a run may be writing. A
// line from the future counts as no sign of life: the clock of one side is
// wrong.
func ReadStatus(path string, now time.Time) (Status, error) {
	beats, err := records.ReadExisting[Beat](path)
	if err != nil || len(beats) == 0 {
		return Status{}, err
	}
	s := Status{Beat: beats[len(beats)-1], Beats: len(beats)}
	at, err := time.Parse(time.RFC3339, s.Time)
	if err != nil {
		return s, err
	}
	age := now.Sub(at)
	s.Age = age.Round(time.Second).String()
	s.Alive = s.Event != "stop" && age < StaleAfter && age > -time.Minute
	return s, nil
}
