package synth

import "strings"

// Wording selects the words in which errands are asked.
type Wording int

// The wordings. No two have a form of a question in common.
const (
	Usual  Wording = iota // of documents
	Varied                // for training beyond the documents
	Unseen                // for evaluation alone
)

// wordings maps the kinds of errands, those of tables with their operation, to
// the forms of their questions by wording.
func wordings() map[string][3][]string {
	return map[string][3][]string{
		Arithmetic: {
			Varied: {"Please calculate {words}.", "Tell me {words}.", "{words} is how much?", "What do you get for {expr}?", "Work out {expr}.",
				"I need the result of {words}.", "Can you solve {expr}?", "Say what {words} makes."},
			Unseen: {"Give me the value of {expr}.", "Find {words}.", "{expr} equals what?", "So {words} makes how much?", "Please work out {words} for me.",
				"Do you know {expr}?"},
		},
		Units: {
			Varied: {"Please turn {n} {from} into {to}.", "{n} {from} is how many {to}?", "Change {n} {from} to {to}.", "I need {n} {from} in {to}.",
				"Say {n} {from} in {to}."},
			Unseen: {"Tell me {n} {from} in {to}.", "Give {n} {from} as {to}.", "How many {to} make {n} {from}?", "Write {n} {from} in {to}."},
		},
		Tables + "/max": {
			Varied: {"Tell me the highest in {asset}.", "Who has the most in {asset}?", "In {asset}, which is the highest?", "I want the highest in {asset}.", "Say which is the highest in {asset}.", "{asset}: which one has the most?"},
			Unseen: {"Find the highest in {asset}.", "Please say which has the most in {asset}.", "Look at {asset}. Which is the highest?"},
		},
		Tables + "/min": {
			Varied: {"Tell me the lowest in {asset}.", "Who has the least in {asset}?", "In {asset}, which is the lowest?", "I want the lowest in {asset}.", "Say which is the lowest in {asset}.", "{asset}: which one has the least?"},
			Unseen: {"Find the lowest in {asset}.", "Please say which has the least in {asset}.", "Look at {asset}. Which is the lowest?"},
		},
		Tables + "/sum": {
			Varied: {"Tell me the sum of all in {asset}.", "Please sum up all in {asset}.", "In {asset}, how much is it all together?", "I want the sum of {asset}.", "Say what all in {asset} make together.", "{asset}: how much is the sum?"},
			Unseen: {"Find the sum of all in {asset}.", "Give me all in {asset} together.", "Look at {asset}. What is the sum?"},
		},
		Tables + "/count": {
			Varied: {"Tell me how many there are in {asset}.", "Please count those in {asset}.", "In {asset}, how many are there?", "I want the number of those in {asset}.", "Say how many {asset} has.", "{asset}: how many?"},
			Unseen: {"Find how many are in {asset}.", "Give me the count of {asset}.", "Look at {asset}. How many are there?"},
		},
		Tables + "/value": {
			Varied: {"Tell me the value of {label} in {asset}.", "In {asset}, how much is {label}?", "Please say how high {label} is in {asset}.", "I want the value of {label} in {asset}.", "Say how much {label} has in {asset}.", "{asset}: what is {label}?"},
			Unseen: {"Find the value of {label} in {asset}.", "Give me {label} of {asset}.", "Look at {asset}. How much is {label}?"},
		},
	}
}

// fill replaces the places in forms, which come in pairs with their values.
func fill(forms []string, pairs ...string) []string {
	out := make([]string, len(forms))
	for i, f := range forms {
		out[i] = strings.NewReplacer(pairs...).Replace(f)
		out[i] = strings.ToUpper(out[i][:1]) + out[i][1:]
	}
	return out
}
