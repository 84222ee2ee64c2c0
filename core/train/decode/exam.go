package decode

import (
	"context"
	"fmt"

	"mm-abi.org/mm/core/dataset/scene"
	"mm-abi.org/mm/core/train"
)

// Draw makes the picture, [h, w, 3], that a prompt asks for, by whatever means;
// seed is of its noise.
type Draw func(ctx context.Context, prompt string, seed uint64) (rgb []byte, w, h int, err error)

// ExamOptions say what is asked for.
type ExamOptions struct {
	N     int         // prompts of the held-out split
	Scene Scene       // Pixels and Examples say nothing here
	Looks []Look      // none: Own
	Tell  func(i int) // nil tells nobody; called before each prompt
}

// Exam has pictures drawn for held-out prompts and judges each by what its own
// prompt asks for and, where it is wanted, by what the next one does.
func Exam(ctx context.Context, draw Draw, opt ExamOptions) ([]train.Evaluation, error) {
	if opt.N < 1 || opt.N > maxHeld {
		return nil, fmt.Errorf("%d prompts: 1 to %d", opt.N, maxHeld)
	}
	if len(opt.Looks) == 0 {
		opt.Looks = []Look{Own}
	}
	src, _, err := Data{Scene: &opt.Scene}.open(heldSplit, "")
	if err != nil {
		return nil, err
	}
	verdicts := make([][]Verdict, opt.N)
	for i := range verdicts {
		if opt.Tell != nil {
			opt.Tell(i)
		}
		s := src.(pictures).Source.Make(i)
		rgb, w, h, err := draw(ctx, s.Draw, uint64(i))
		if err != nil {
			return nil, fmt.Errorf("prompt %d, %q: %w", i, s.Draw, err)
		}
		if w < scene.MinSize/4 || h < scene.MinSize/4 || len(rgb) != 3*w*h {
			return nil, fmt.Errorf("prompt %d, %q: a picture of %d × %d in %d bytes cannot be judged", i, s.Draw, w, h, len(rgb))
		}
		verdicts[i] = JudgeScene(s, rgb, w, h)
	}
	var all []train.Evaluation
	for _, look := range opt.Looks {
		tally := train.Tally{}
		for i, list := range verdicts {
			for k, v := range list {
				if look == Another {
					v.Got = verdicts[(i+1)%opt.N][k].Got
				}
				tally.Add(v.Kind, v.Want, v.Want == v.Got)
			}
		}
		all = append(all, train.Evaluation{Predictions: opt.N, Scores: tally.Scores()})
	}
	return all, nil
}
