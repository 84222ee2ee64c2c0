package experiment

import (
	"time"

	"mm-abi.org/mm/lab/records"
	"mm-abi.org/mm/lab/telemetry"
)

// StaleAfter is the age at which the last heartbeat no longer counts as a sign of life.
const StaleAfter = 10 * time.Minute

// Beat is a line of the heartbeat file.
type Beat struct {
	Time      string            `json:"time"` // RFC 3339
	Run       string            `json:"run"`
	Rows      int               `json:"rows"`  // of the chain
	Event     string            `json:"event"` // of the last row
	Hash      string            `json:"hash"`  // hex SHA-256 of the last row
	Iteration int               `json:"iteration"`
	Failures  int               `json:"failures"` // consecutive
	Reading   telemetry.Reading `json:"reading"`
	Simulated bool              `json:"simulated,omitempty"`
}

// Status is the status of a run by its last heartbeat.
type Status struct {
	Beat
	Beats int    `json:"beats"`
	Age   string `json:"age"`
	Alive bool   `json:"alive"` // not stopped, last heartbeat not stale
}

// ReadStatus reads the heartbeat file at path, which a run may be writing. A heartbeat from
// the future is not a sign of life: one of the clocks is wrong.
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
