"""Data: what all of Headway's stories share, in the notation of `grammar`: people, things, beginnings and ends.

No two options of a rule may say the same, whatever follows, so that a story can be read back; whoever changes a rule
runs the test that does so.
"""

PEOPLE = {
    "child": """
        40 girl | girl she; 40 boy | boy he; 7 rabbit | rabbit she; 5 bear | bear he; 4 mouse | mouse she
        4 fox | fox he""",
    "name@girl": """
        22 Lily | girl she; 14 Mia | girl she; 12 Anna | girl she; 10 Lucy | girl she; 9 Rose | girl she
        8 Emma | girl she; 7 Sue | girl she; 6 Nora | girl she; 5 Zoe | girl she; 4 Ella | girl she
        3 Clara | girl she""",
    "name@boy": """
        20 Tim | boy he; 16 Ben | boy he; 13 Tom | boy he; 11 Max | boy he; 9 Jack | boy he; 8 Sam | boy he
        7 Noah | boy he; 6 Finn | boy he; 5 Leo | boy he; 3 Oscar | boy he; 2 Hugo | boy he""",
    "name@rabbit": "5 Hoppy | rabbit she; 3 Daisy | rabbit she; 2 Clover | rabbit she",
    "name@bear": "5 Bruno | bear he; 3 Honey | bear he; 2 Teddy | bear he",
    "name@mouse": "5 Pip | mouse she; 3 Minnie | mouse she; 2 Tilly | mouse she",
    "name@fox": "5 Rusty | fox he; 3 Felix | fox he; 2 Red | fox he",
    "friend": """
        12 Kim | girl she; 11 Peter | boy he; 10 Amy | girl she; 9 Joe | boy he; 8 Jane | girl she; 7 Billy | boy he
        6 Molly | girl she; 5 Dan | boy he; 4 Ruby | girl she; 3 Adam | boy he""",
    "elder": "10 mom | mom she; 7 dad | dad he; 5 grandma | grandma she; 4 grandpa | grandpa he; 2 aunt | aunt she",
    "trait": """
        30 little; 12 kind; 9 happy; 8 small; 7 brave; 6 curious; 5 gentle; 5 clever; 4 shy; 4 funny; 3 cheerful
        3 quiet; 2 lively; 2 polite""",
    "hobby": """
        12 sing songs; 10 draw pictures; 9 climb trees; 8 dance; 7 jump over puddles; 6 pick flowers; 5 read books
        5 run very fast; 4 tell jokes; 4 count the clouds; 3 dig deep holes; 3 bake cookies; 2 play the drum
        2 build towers""",
}

THINGS = {
    "color": "18 red; 15 blue; 12 green; 11 yellow; 8 white; 7 pink; 6 brown; 5 purple; 4 black; 3 golden; 2 silver",
    "toy": """
        16 ball; 12 kite; 10 hat; 9 doll; 8 scarf; 7 boat; 6 drum; 6 book; 5 train; 4 bell; 4 ribbon; 3 whistle
        2 puppet""",
    "place": """
        16 park | in; 12 garden | in; 10 forest | in; 9 beach | at; 8 playground | at; 7 river | by; 6 farm | on
        5 market | at; 4 meadow | in; 3 lake | by""",
    "spot": """
        12 under a bench; 10 behind a big tree; 9 next to a rock; 8 on top of a wall; 7 beside the gate
        6 in the tall grass; 5 between two bushes; 4 near an old well; 3 inside a hollow log""",
    "errand": "6 some eggs; 5 fresh bread; 4 a bag of apples; 3 milk; 2 a pot of honey",
    "morning": "8 sunny; 5 bright; 4 warm; 3 windy; 2 cold; 1 foggy",
    "weekday": "3 Monday; 2 Tuesday; 2 Wednesday; 3 Friday; 6 Saturday; 5 Sunday",
}

OPENING = {
    "start": """
        19 {opening}{br}{lost}; 17 {opening}{br}{rescue}; 15 {opening}{br}{present}; 14 {opening}{br}{broken}
        13 {opening}{br}{brave}; 12 {opening}{br}{share}; 10 {opening}{br}{rain}""",
    "opening": """
        30 Once upon a time, there was a {trait} {child=kid} named {name@kid=hero}. {loved}
        16 Once upon a time there was a {trait} {child=kid} whose name was {name@kid=hero}. {loved}
        8 There once was a {trait} {child=kid} called {name@kid=hero}. {loved}
        8 {child=kid!}{name@kid=hero} was a {trait} {$kid}. {loved}
        5 In a {size} {home} {where} lived a {trait} {child=kid} named {name@kid=hero}. {liked}""",
    "loved": """
        8 {$hero.They} lived in a {size} {home} {where}. {liked}
        5 {$hero.They} lived with {$hero.their} {family} in a {size} {home} {where}. {liked}
        4 {$hero.They} always wore {clothes}. {liked}
        10 {liked}""",
    "family": "6 parents; 4 two brothers; 3 three sisters; 2 family; 2 old uncle",
    "clothes": "4 a {color} {garment}; 2 {color} {garments}",
    "garment": "6 hat; 5 coat; 4 scarf; 3 apron; 2 cap",
    "garments": "6 boots; 5 shoes; 3 socks; 2 mittens",
    "liked": """
        10 {$hero} loved to {hobby=hobby}.
        5 Every day, {$hero.they} liked to {hobby=hobby}.
        4 More than anything else, {$hero} liked to {hobby=hobby}.""",
    "size": "8 small; 5 big; 3 cozy; 2 wooden; 1 tiny",
    "home": "10 house; 4 cottage; 3 cabin; 2 hut",
    "where": """
        8 near the sea; 7 by the forest; 6 on a green hill; 5 at the end of a long road; 4 in a quiet village
        3 next to a mill""",
}

WALK = {
    "walk": """
        6 The {sky=sky} {sky_did@sky} and the {nature=nature} {nature_did@nature}. | plain
        4 {$hero.They} sang a song about a {color} {beast}. | plain
        8 On the way, {$hero.they} saw a {size_of=look} {beast=beast} that {doing=doing}. | saw
        5 The {sky=sky} {sky_did@sky}, and a {size_of=look} {beast=beast} {doing=doing}. | saw""",
    "sky": "6 sun | sun; 4 sky | sky; 3 wind | wind",
    "sky_did@sun": "6 was shining; 4 was warm; 2 came out",
    "sky_did@sky": "6 was blue; 4 was clear; 2 was full of clouds",
    "sky_did@wind": "5 was soft; 4 blew gently; 2 was strong",
    "nature": "6 birds | sing; 4 bees | hum; 4 flowers | smell; 3 leaves | fall; 2 frogs | sing",
    "nature_did@sing": "5 were singing; 2 were very loud",
    "nature_did@hum": "5 were busy; 3 were humming",
    "nature_did@smell": "5 smelled sweet; 3 were in bloom",
    "nature_did@fall": "4 danced in the air; 3 moved softly",
    "size_of": "8 big; 7 fat; 6 tiny; 5 sleepy; 4 funny; 4 pretty; 3 gray; 2 wet; 2 proud",
    "beast": """
        9 frog; 8 dog; 7 duck; 6 cow; 6 horse; 5 butterfly; 5 goat; 4 snail; 4 goose; 3 bee; 3 pig; 2 swan; 2 donkey""",
    "doing": """
        8 was sleeping in the grass; 7 was looking for food; 6 was jumping up and down; 5 was hiding behind a bush
        5 was drinking from a puddle; 4 was playing with a leaf; 4 was running in circles; 3 was making funny sounds
        2 was watching the clouds""",
}

CLOSING = {
    "end@plain": "3 {close}; 2 {next_day}",
    "end@saw": """
        6 {close}
        4 {next_day}
        5 {br}In bed, {$hero} thought of the {$look} {$beast} that {$doing}.
        3 {br}"And I saw a {$look} {$beast}," {$hero} said. "It {$doing}." Everyone laughed.""",
    "next_day": """
        4 {br}The next {time}, {$hero} went out to {$hobby}. {walked}{close}
        3 {br}A few days later, {$hero} wanted to {$hobby} with {friend_too}. {walked}{close}""",
    "time": "5 day; 4 morning; 2 weekend; 1 week",
    "friend_too": "5 two cousins; 4 a new neighbor; 3 the whole family; 2 the children from school",
    "walked": """
        5 The {sky=sky} {sky_did@sky} and the {nature=nature} {nature_did@nature}.
        3 There was also a {size_of} {beast}, and it {doing}.
        2 A {color} {beast} came along and {doing}.""",
    "close": """
        30 ~
        14 {br}{$hero} was happy and went to {$hobby}.
        10 {br}That night, {$hero} fell asleep with a smile.
        8 {br}And they lived happily ever after.
        7 {br}Then {$hero} went out to {$hobby}, as on every day.
        5 {br}The end.""",
}
