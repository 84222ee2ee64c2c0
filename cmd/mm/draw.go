package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/core/train"
	"mm-abi.org/mm/core/train/decode"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/internal/sniff"
)

// isCheckpoint reports whether arg is a file of a training.
func isCheckpoint(arg string) bool {
	head, err := fsx.ReadHead(arg, sniff.Head)
	return err == nil && sniff.Bytes(head) == sniff.Safetensors
}

// drawCheckpoint measures what the decoder of a checkpoint draws.
func (p *program) drawCheckpoint(c *cli.Context) error {
	looks := []decode.Look{decode.Own}
	if c.Bool("ablate") {
		looks = append(looks, decode.Another)
	}
	all, err := decode.Measure(c.Context, c.Args().First(), looks, decode.MeasureOptions{N: c.Int("n"), Dir: c.String("data"), Threads: c.Int("threads")})
	if err != nil {
		return err
	}
	return p.printDrawn(looks, all)
}

// judged is what mm eval draw prints of one way to judge a checkpoint.
type judged struct {
	Look decode.Look `json:"look,omitempty"`
	train.Evaluation
}

func (p *program) printDrawn(looks []decode.Look, all []train.Evaluation) error {
	var out []judged
	var rows [][]string
	for i, e := range all {
		out = append(out, judged{looks[i], e})
		for _, s := range e.Scores {
			low, high := s.Interval()
			rows = append(rows, []string{looks[i].Name(), s.Kind, fmt.Sprintf("%.1f%%", 100*s.Accuracy()), fmt.Sprintf("%.1f–%.1f%%", 100*low, 100*high),
				fmt.Sprint(s.N), fmt.Sprintf("%.1f%%", 100*s.Chance)})
		}
	}
	if p.json {
		return p.printJSON(out)
	}
	return p.printTable([]string{"PROMPT", "ASKED FOR", "RIGHT", "95 % INTERVAL", "N", "CHANCE"}, rows)
}
