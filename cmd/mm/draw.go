package main

import (
	"context"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/decode"
)

// isCheckpoint reports whether arg is a training checkpoint.
func isCheckpoint(arg string) bool {
	head, err := fsx.ReadHead(arg, fsx.SniffLen)
	return err == nil && fsx.Sniff(head) == fsx.Safetensors
}

// drawCheckpoint measures the images that the decoder in a checkpoint draws.
func (p *program) drawCheckpoint(ctx context.Context, file string, ablate bool, opt decode.MeasureOptions) error {
	looks := []decode.Look{decode.Actual}
	if ablate {
		looks = append(looks, decode.Another)
	}
	all, err := decode.Measure(ctx, file, looks, opt)
	if err != nil {
		return err
	}
	return p.printDrawn(looks, all)
}

// judged is the output of mm eval draw for a judge of a checkpoint.
type judged struct {
	Look decode.Look `json:"look,omitempty"`
	train.Evaluation
}

func (p *program) printDrawn(looks []decode.Look, all []train.Evaluation) error {
	var out []judged
	var rows [][]string
	for i, e := range all {
		out = append(out, judged{looks[i], e})
		rows = append(rows, scored(e.Scores, looks[i].Name())...)
	}
	if p.json {
		return p.printJSON(out)
	}
	return p.printTable([]string{"PROMPT", "ASKED FOR", "RIGHT", "95 % INTERVAL", "N", "CHANCE"}, rows)
}
