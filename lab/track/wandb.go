package track

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"io"
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Numbers of fields of wandb_internal.proto.
const (
	recordNumber  protowire.Number = 1
	recordHistory protowire.Number = 2
	recordSummary protowire.Number = 3
	recordRun     protowire.Number = 17
	recordExit    protowire.Number = 18
	recordHeader  protowire.Number = 21
	itemKey       protowire.Number = 1
	itemNested    protowire.Number = 2
	itemJSON      protowire.Number = 16
)

// weightsAndBiases writes an offline run, which wandb sync sends.
func weightsAndBiases(r *Run, version string) (string, func(io.Writer) error) {
	id := r.ID[:8]
	name := "offline-run-" + time.UnixMilli(r.Begin).UTC().Format("20060102_150405") + "-" + id + "/run-" + id + ".wandb"
	return name, func(w io.Writer) error {
		l := &recordLog{w: w}
		l.header()
		for i, one := range r.records(id, version) {
			one = append(protowire.AppendVarint(protowire.AppendTag(nil, recordNumber, protowire.VarintType), uint64(i)), one...)
			l.record(one)
		}
		return l.err
	}
}

// records returns the records of a run without their numbers.
func (r *Run) records(id, version string) (all [][]byte) {
	head := message(nil, 1, message(nil, 1, []byte("mm "+version)))
	all = append(all, message(nil, recordHeader, head))
	var run, config []byte
	for _, p := range r.Params {
		config = message(config, 1, item(nil, itemKey, p.Key, paramJSON(p.Value)))
	}
	run = message(message(message(run, 1, []byte(id)), 3, []byte("mm")), 4, config)
	start := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(r.Begin/1000))
	start = protowire.AppendVarint(protowire.AppendTag(start, 2, protowire.VarintType), uint64(r.Begin%1000)*1e6)
	run = message(message(run, 8, []byte(r.Name)), 17, start)
	all = append(all, message(nil, recordRun, run))
	last := map[string]float64{}
	var keys []string
	for _, row := range r.rows() {
		var h []byte
		for _, m := range row.metrics {
			if _, exists := last[m.Key]; !exists {
				keys = append(keys, m.Key)
			}
			last[m.Key] = m.Value
			h = message(h, 1, item(nil, itemNested, m.Key, numberJSON(m.Value)))
		}
		h = message(h, 1, item(nil, itemNested, "_step", strconv.FormatInt(row.step, 10)))
		h = message(h, 1, item(nil, itemNested, "_timestamp", numberJSON(float64(row.time)/1000)))
		h = message(h, 1, item(nil, itemNested, "_runtime", numberJSON(float64(row.time-r.Begin)/1000)))
		h = message(h, 2, protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(row.step)))
		all = append(all, message(nil, recordHistory, h))
	}
	var summary []byte
	for _, key := range keys {
		summary = message(summary, 1, item(nil, itemNested, key, numberJSON(last[key])))
	}
	all = append(all, message(nil, recordSummary, summary))
	if r.Ended == "" {
		return all
	}
	code := uint64(0)
	if status(r.Ended) == "KILLED" {
		code = 1
	}
	exit := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), code)
	exit = protowire.AppendVarint(protowire.AppendTag(exit, 2, protowire.VarintType), uint64(max(r.End-r.Begin, 0)/1000))
	return append(all, message(nil, recordExit, exit))
}

// message appends a field with a message or a text.
func message(b []byte, number protowire.Number, data []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), data)
}

// item returns an item with a key and a value in JSON.
func item(b []byte, key protowire.Number, name, value string) []byte {
	return message(message(b, key, []byte(name)), itemJSON, []byte(value))
}

// numberJSON formats a number as Python's json does.
func numberJSON(v float64) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "Infinity"
	case math.IsInf(v, -1):
		return "-Infinity"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// paramJSON returns the JSON of a parameter: a number, a truth value or a text.
func paramJSON(text string) string {
	var v any
	if json.Unmarshal([]byte(text), &v) == nil {
		switch v.(type) {
		case float64, bool:
			return text
		}
	}
	quoted, _ := json.Marshal(text) // a text
	return string(quoted)
}

// The parts of a log of LevelDB, as W&B writes it.
const (
	logBlock  = 32 << 10
	logHead   = 7 // checksum, length, kind
	logFull   = 1
	logFirst  = 2
	logMiddle = 3
	logLast   = 4
)

// recordLog writes records in blocks.
type recordLog struct {
	w   io.Writer
	at  int // in the block
	err error
}

func (l *recordLog) write(p []byte) {
	if l.err == nil {
		_, l.err = l.w.Write(p)
	}
	l.at = (l.at + len(p)) % logBlock
}

// header writes the mark, the magic number and the version of the file.
func (l *recordLog) header() { l.write([]byte{':', 'W', '&', 'B', 0xe1, 0xbe, 0}) }

// record writes a record in as many parts as it has blocks.
func (l *recordLog) record(data []byte) {
	for first := true; ; first = false {
		if rest := logBlock - l.at; rest < logHead {
			l.write(make([]byte, rest))
		}
		part := data[:min(len(data), logBlock-l.at-logHead)]
		data = data[len(part):]
		kind := byte(logMiddle)
		switch {
		case first && len(data) == 0:
			kind = logFull
		case first:
			kind = logFirst
		case len(data) == 0:
			kind = logLast
		}
		sum := crc32.Update(crc32.ChecksumIEEE([]byte{kind}), crc32.IEEETable, part)
		head := binary.LittleEndian.AppendUint32(nil, sum)
		head = binary.LittleEndian.AppendUint16(head, uint16(len(part)))
		l.write(append(append(head, kind), part...))
		if len(data) == 0 {
			return
		}
	}
}
