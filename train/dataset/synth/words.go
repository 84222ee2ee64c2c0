package synth

// The words of the stories, known to a small child.
var (
	girls   = []string{"Lily", "Mia", "Sue", "Anna", "Lucy", "Sara", "Emma", "Zoe", "Kim", "Amy", "Jane", "Molly", "Nina", "Rose"}
	boys    = []string{"Tim", "Tom", "Ben", "Max", "Sam", "Jack", "Leo", "Bob", "Joe", "Dan", "Fred", "Mark", "Billy", "Roy"}
	places  = []string{"park", "garden", "forest", "house", "yard", "school", "farm", "beach", "store", "river", "zoo", "kitchen"}
	things  = []string{"ball", "toy", "car", "doll", "book", "kite", "hat", "box", "boat", "cake", "cup", "drum", "flower", "train"}
	animals = []string{"dog", "cat", "bird", "bunny", "frog", "fish", "bear", "duck", "mouse", "horse", "bug", "owl", "fox", "turtle"}
	colors  = []string{"red", "blue", "green", "yellow", "big", "small", "pretty", "shiny", "soft", "round", "white", "brown"}
	lessons = []string{"share with others", "be kind", "be careful", "say thank you", "help friends", "listen to mom", "try again", "tell the truth"}
)
