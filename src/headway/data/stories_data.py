"""The seven plots of Headway's stories and the words they share, in the notation of `grammar`.

The shared rules hold people, things, beginnings and ends. No two options of a rule may give one text, whatever follows,
so that a story can be read back; after changing a rule, run the test that checks this.

This file holds only data, so it may be longer than other files: split, a plot would be no easier to read.
"""

LOST = {
    "lost": "3 {dear} {put_away}{br}{search}{br}{found}; 1 {put_away_new}{br}{search}{br}{found}",
    "dear": """
        6 {$hero.Their} favorite thing was a {color=color} {toy=toy}, a gift from {$hero.their} {elder=elder}.
        4 {$hero.Their} {elder=elder} had given {$hero.them} a {color=color} {toy=toy}, and {$hero.they} took it
            everywhere.
        3 {$hero} had a {color=color} {toy=toy}. {$hero.Their} {elder=elder} had made it for {$hero.them}.""",
    "put_away": """
        6 One {morning} day, {$hero.they} went to the {place=place} with {$hero.their} friend {friend=friend}.
            {walk=walk} {leave}
        4 On {weekday}, {$hero} and {$hero.their} friend {friend=friend} played {place=place!}{$place.kind} the
            {$place}. {walk=walk} {leave}""",
    "put_away_new": """
        1 On {weekday}, {$hero.their} {elder=elder} gave {$hero.them} a new {toy=toy}. It was {color=color}. {$hero}
            took it to the {place=place} and showed it to {$hero.their} friend {friend=friend}. {walk=walk} {leave}""",
    "leave": """
        6 {$hero.They} put the {$toy} {spot=spot} and ran off to play {game}.{?played} In the evening they went
            home.
        5 The {$toy} got in the way, so {$hero.they} left it {spot=spot}. Then they played {game}.{?played} When it
            grew late, they went home.""",
    "game": "8 tag; 6 hide and seek; 4 with a puppy; 3 in the water; 3 pirates; 2 in the sand",
    "played": "10 ~; 4 They laughed a lot.; 3 It was so much fun.; 2 They forgot everything else.",
    "search": """
        5 At bedtime, {$hero} wanted {$hero.their} {$toy}, but it was gone. {look}
        4 Before dinner, {$hero} saw that {$hero.their} {$toy} was not there.{?sad} {look}
        3 "Where is my {$color} {$toy}?" {$hero} cried that night. {look}""",
    "sad": "3 {$hero.They} felt very sad.; 2 {$hero.They} began to cry.; 2 {$hero.They} was worried.",
    "look": """
        5 {$hero.They} looked {in_house}, but found only {junk}. {ask}
        5 {$hero.They} looked {in_house}. No {$toy}! {$hero.They} looked {in_house_too}. No {$toy} again! {ask}
        2 {$hero.They} looked {in_house}, {in_house_too} and {in_house_last}, but there was no {$toy}. {ask}""",
    "in_house": "7 under the bed; 5 behind the door; 4 in the kitchen; 2 below the table",
    "in_house_too": "6 in the toy box; 4 on the shelf; 3 in the bath; 2 under the rug",
    "in_house_last": "5 in every drawer; 4 behind the clock; 2 inside the shoes",
    "junk": "6 a sock; 4 some dust; 3 a spoon; 2 one sleepy cat",
    "ask": """
        6 "Think, {$hero}," said {$hero.their} {$elder}. "Where did you have it last?"
        4 {$hero.Their} {$elder} asked, "Where did you play today?"
        2 {$hero.Their} {$elder} said, "Let us ask {$friend}." But {$friend} did not know.""",
    "found": """
        6 {$hero} thought hard. "{$place.Kind} the {$place}!" {$hero.they} said. {go_back} They looked {$spot}, and
            there was the {$color} {$toy}. {glad}
        4 Then {$hero} remembered the {$place}. {go_back} The {$color} {$toy} was still there, {$spot}. {glad}
        2 {$hero} closed {$hero.their} eyes and saw the {$place} again. {go_back} {$friend} came too and pointed
            {$spot}. There it was! {glad}""",
    "go_back": """
        5 {$hero.They} and {$hero.their} {$elder} hurried back.
        4 {$hero.Their} {$elder} took a lamp, and they walked there together.
        2 Early the next morning, they went there again.""",
    "glad": """
        5 {$hero} hugged {$hero.their} {$elder} and said, "Thank you for helping me!" {lost_end}
        4 "My {$toy}!" {$hero} shouted with joy. {lost_end}
        3 {$hero} jumped up and down and held the {$toy} tight. {lost_end}""",
    "lost_end": """
        6 From that day on, {$hero} took good care of {$hero.their} things.{end@walk}
        4 {$hero} never left the {$toy} {$spot} again.{end@walk}
        3 The next day, {$hero} told {$friend} all about it.{end@walk}""",
}

RESCUE = {
    "rescue": """
        5 One {morning} day, {$hero} walked to the {place=place} with {$hero.their} {elder=elder}. {walk=walk} {cry}
        4 On {weekday}, {$hero.their} {elder=elder} sent {$hero.them} to the {place=place} to get {errand=errand}.
            {walk=walk} {cry}""",
    "cry": """
        5 {$hero.They} heard a soft cry and found a {color=color} {creature=pet}. {trouble@pet} {helper}
        4 There {$hero.they} saw a {color=color} {creature=pet}. {trouble@pet} {helper}""",
    "creature": """
        12 kitten | high; 7 squirrel | high; 9 puppy | mud; 6 lamb | mud; 4 piglet | mud; 8 duckling | lost
        5 chick | lost; 8 bird | hurt; 5 turtle | hurt; 3 hedgehog | hurt""",
    "trouble@high": """
        5 It sat high up in a tree and could not get down.
        3 It was on a roof and was afraid to jump.""",
    "trouble@mud": """
        5 It was stuck in the deep mud.
        3 It had fallen into a ditch and could not climb out.""",
    "trouble@lost": "5 It could not find its mother.; 3 It was all alone and very hungry.",
    "trouble@hurt": "5 It had hurt its leg.; 3 It was caught in an old net.",
    "helper": """
        5 "Do not be scared, little {$pet}," said {$hero}. "I will help you." {fetch}
        4 {$hero} felt sorry for the {$pet}. {fetch}
        3 "Poor {$pet}!" said {$hero}. {fetch}""",
    "fetch": """
        5 {$hero.They} ran to {$hero.their} {$elder} and asked for {tool@pet=tool}. {use}
        4 {$hero.They} called {$hero.their} friend {friend}, who brought {tool@pet=tool}. {use}""",
    "tool@high": "5 a ladder; 3 a long rope; 2 a basket",
    "tool@mud": "5 a strong rope; 3 a wooden board; 2 a shovel",
    "tool@lost": "5 some bread; 3 a bowl of seeds; 2 a warm blanket",
    "tool@hurt": "5 a soft cloth; 3 a pair of scissors; 2 a bit of string",
    "use": """
        5 With {$tool}, they helped the {$pet}. {saved@pet} {naming}
        4 It was not easy, but {$tool} was just what they needed. {saved@pet} {naming}""",
    "saved@high": "5 Soon it was safe on the ground.; 3 Slowly, it came down.",
    "saved@mud": "5 Soon it was out and shook itself.; 3 At last it stood on dry grass.",
    "saved@lost": """
        5 It ate and followed them, and behind a hill they found its mother.
        3 Before long, its mother came running.""",
    "saved@hurt": "5 Soon it felt much better.; 3 After a while, it could move again.",
    "naming": """
        5 {$hero} called it {pet_name=petname}.{br}{later}
        3 "I will name you {pet_name=petname}," {$hero.they} said.{br}{later}""",
    "pet_name": "8 Lucky; 6 Fluffy; 5 Spot; 4 Coco; 3 Biscuit; 2 Button; 2 Pepper; 1 Captain",
    "later": """
        5 The next morning, there was a knock at the door. It was {$petname}! The {$color} {$pet} had brought
            {gift=gift}. {thanks}
        4 A week later, {$hero} went to the {$place} again. {$petname} the {$pet} was waiting there with
            {gift=gift}. {thanks}
        3 That night, {$hero} dreamed of {$petname}. In the morning, {gift=gift} lay at the door, and a {$color}
            {$pet} ran away. {thanks}""",
    "gift": "6 a shiny stone; 5 a red berry; 4 a long feather; 3 a round nut; 2 a lost coin; 2 a sweet apple",
    "thanks": """
        5 "Thank you, {$petname}!" said {$hero}. {rescue_end}
        4 {$hero} showed {$gift} to {$hero.their} {$elder}. {rescue_end}
        2 {$hero} laughed and kept {$gift} for a long time. {rescue_end}""",
    "rescue_end": """
        5 {$hero} and {$petname} became good friends.{end@walk}
        4 {$hero.They} had learned that helping others feels good.{end@walk}
        2 Now {$hero} goes to see the {$pet} every day.{end@walk}""",
}

PRESENT = {
    "present": """
        5 It was almost the birthday of {$hero.their} {elder=elder}. {plan}
        4 One day, {$hero.their} {elder=elder} was ill and had to stay in bed. {plan}""",
    "plan": """
        5 "I will make a {craft=craft}," said {$hero}. "I need a {color=c1} {plant=one}, a {feel=c2} {find=two} and
            a {shape=c3} {bit=three}."{br}{first}
        4 {$hero} wanted to make a {craft=craft} as a surprise. For that {$hero.they} needed a {color=c1}
            {plant=one}, a {feel=c2} {find=two} and a {shape=c3} {bit=three}.{br}{first}""",
    "craft": "8 crown; 6 necklace; 5 picture; 3 wreath; 2 mobile",
    "plant": "8 flower; 5 leaf; 3 berry; 2 rose",
    "feel": "7 soft; 6 shiny; 4 smooth; 3 light",
    "find": "8 feather; 6 shell; 4 ribbon; 2 pearl",
    "shape": "8 round; 5 long; 4 thin; 2 heavy",
    "bit": "7 stone; 6 stick; 4 thread; 2 button",
    "first": """
        5 First {$hero.they} went to the {place=place}. {walk=walk} There {$hero.they} found the {$one} {spot}.
            {$hero.Their} friend {friend=friend} gave {$hero.them} the {$two}.{?hard} Last of all, {$hero.they} saw the
            {$three} {spot_too}. {make}
        4 {$hero.Their} friend {friend=friend} had the {$three} at home. Together they went to the {place=place}.
            {walk=walk} The {$two} lay {spot}.{?hard} Only the {$one} was missing, but then {$friend} saw it {spot_too}.
            {make}
        2 {$hero} looked all day. {walk=walk} The {$two} was {spot}, and the {$one} was {spot_too}.{?hard} "I have
            the {$three}!" called {friend=friend}, who had come to help. {make}""",
    "spot_too": "5 near the house; 4 by the road; 3 at the foot of a hill; 2 in a puddle",
    "hard": "8 ~; 4 It took a long time.; 3 It was hard work.; 2 The wind blew, but they did not stop.",
    "make": """
        5 At home, {$hero} put the {$one}, the {$two} and the {$three} together.{br}{give}
        4 They tied the {$one} to the {$two} and put the {$three} on top.{br}{give}
        3 {$hero} worked until the {$craft} was done.{br}{give}""",
    "give": """
        5 "What a lovely {$craft}!" said {$hero.their} {$elder}. "I like the {$c1} {$one} best." {present_end}
        4 {$hero.Their} {$elder} looked at the {$craft} with big eyes. "A {$c1} {$one}, a {$c2} {$two} and a {$c3}
            {$three}! How did you find them all?" {present_end}
        3 {$hero} gave the {$craft} to {$hero.their} {$elder}. {$hero.Their} {$elder} touched the {$c2} {$two} and
            smiled. {present_end}""",
    "present_end": """
        5 "{$friend} helped me," said {$hero}.{end@walk}
        4 {$hero.Their} {$elder} hugged {$hero.them} for a long time.{end@walk}
        3 The {$craft} hung on the wall for many years.{end@walk}""",
}

BROKEN = {
    "broken": """
        5 One {morning} day, {$hero} played inside with {$hero.their} friend {friend=friend}. {smash}
        4 On {weekday}, {friend=friend} came to the house of {$hero} to play. {smash}""",
    "smash": """
        5 They threw a {toy_soft=toy} to each other. {who=who!}{smash@who}
        4 They ran around the table with a {toy_soft=toy}. {who=who!}{smash@who}""",
    "toy_soft": "8 ball; 5 pillow; 4 teddy; 2 hat",
    "who": "6 h | hero; 4 f | friend",
    "smash@hero": """
        1 {$hero} was not careful, and the {$toy} hit the {color=color} {dish=dish} of {$hero.their} {elder=elder}.
            {crash}""",
    "smash@friend": """
        1 {$friend} slipped, and the {color=color} {dish=dish} of {$hero.their} {elder=elder} fell down. {crash}""",
    "dish": "8 vase; 6 lamp; 6 cup; 5 plate; 4 bowl; 3 clock; 2 teapot",
    "crash": """
        5 Crash! It broke into {pieces=pieces} pieces. {react}
        3 Oh no! There were {pieces=pieces} pieces on the floor. {react}""",
    "pieces": "6 three; 5 two; 4 four; 3 five; 2 ten",
    "react": """
        5 "What shall we do?" asked {$friend}. {hide}
        4 They looked at each other and were afraid. {hide}""",
    "hide": """
        5 {$hero} hid the pieces {in_house=where}.{br}{hidden_end}
        4 "We must tell the truth," said {$hero}.{br}{told_end}
        2 {$friend} wanted to run away, but {$hero} shook {$hero.their} head.{br}{told_end}""",
    "hidden_end": """
        5 In the evening, {$hero.their} {$elder} asked, "Where is my {$dish}?" {$hero} could not lie. {$hero.They}
            went and got the {$pieces} pieces from {where_from}. {sorry@who}
        4 All day, {$hero} felt bad. At last {$hero.they} told {$hero.their} {$elder}, "The {$dish} is broken. The
            pieces are {$where}." {sorry@who}""",
    "where_from": "5 where they were; 4 the dark; 2 their secret place",
    "told_end": """
        5 They took the {$pieces} pieces to {$hero.their} {$elder}. {sorry@who}
        4 When {$hero.their} {$elder} came home, {$hero} showed {$elder.them} the broken {$dish}. {sorry@who}""",
    "sorry@hero": """
        5 "I am sorry. It was me," {$hero.they} said. {mend}
        3 "I threw the {$toy}. I am so sorry," said {$hero}. {mend}""",
    "sorry@friend": """
        5 "I am sorry. It was me," said {$friend}. {mend}
        3 "{$friend} did not mean to do it," said {$hero}. {mend}""",
    "mend": """
        5 {$hero.Their} {$elder} was not angry. "Thank you for telling me," {$elder.they} said. {glue}
        4 {$hero.Their} {$elder} was sad at first, but then {$elder.they} smiled. {glue}""",
    "glue": """
        5 They got some {sticky} and put all {$pieces} pieces together. {mended}
        3 With {sticky}, they worked until the {$dish} was whole. {mended}""",
    "sticky": "8 glue; 4 tape; 2 paste",
    "mended": """
        5 The {$color} {$dish} was not as pretty as before, but they all liked it even more.{close}
        4 After that, {$hero} and {$friend} only played with the {$toy} outside.{close}
        3 {$hero} learned that it is best to tell the truth.{close}""",
}

BRAVE = {
    "brave": """
        5 One night, {$hero} woke up. {noise}
        4 It was a dark and {dark} night, and {$hero} could not sleep. {noise}""",
    "dark": "5 stormy; 3 cold; 2 quiet",
    "noise": """
        5 {sound=sound}! There was a noise {far=far}. {fear}
        4 {$hero.They} heard something {far=far}. It went, "{sound=sound}!" {fear}""",
    "sound": """
        8 Tap, tap, tap | branch; 6 Hoo, hoo | owl; 5 Scratch, scratch | cat; 4 Squeak, squeak | toy
        3 Drip, drip, drip | water; 2 Bump, bump | shoe""",
    "far": "6 at the window; 5 behind the door; 4 under the stairs; 3 in the attic; 2 above the roof",
    "fear": """
        5 "Is it a {monster=monster}?" {$hero.they} thought.{?shake} {light}
        4 {$hero} was sure that it was a {monster=monster}.{?shake} {light}""",
    "monster": "7 monster; 5 ghost; 4 dragon; 3 wolf; 2 witch",
    "shake": """
        6 ~; 4 {$hero.Their} heart beat fast.; 3 {$hero.They} hid under the blanket.
        2 {$hero.Their} hands were cold.""",
    "light": """
        5 {$hero.They} took {$hero.their} {color=color} {lamp=lamp} and called {$hero.their} {elder=elder}.{br}{go}
        4 But {$hero} wanted to be brave. {$hero.They} got the {color=color} {lamp=lamp} that {$hero.their}
            {elder=elder} had given {$hero.them}.{br}{go}""",
    "lamp": "7 lamp; 6 torch; 4 lantern; 2 candle",
    "go": """
        5 Step by step, {$hero.they} went to look. "{$sound}!" It was {loud}. {reveal}
        4 "{$sound}!" it went again. {$hero} held up the {$lamp}. {reveal}
        2 {$hero.They} counted to {number} and looked {$far}. {reveal}""",
    "loud": "5 louder now; 3 very close; 2 right there",
    "number": "6 three; 4 ten; 2 five",
    "reveal": """
        5 It was no {$monster} at all. {what@sound}
        4 And what did {$hero.they} see {$far}? Not a {$monster}! {what@sound}""",
    "what@branch": "5 Only a branch that moved in the wind! {relief}; 3 It was the old apple tree. {relief}",
    "what@owl": """
        5 A young owl looked back with big eyes. {relief}
        3 It was an owl that sang to the moon. {relief}""",
    "what@cat": """
        5 It was the cat, who wanted to come in. {relief}
        3 A small gray cat was hungry. {relief}""",
    "what@toy": """
        5 It was a rubber duck that had been left on the floor. {relief}
        3 A tiny mouse was eating cheese. {relief}""",
    "what@water": "5 It was only the rain that came in. {relief}; 3 Someone had not closed the tap. {relief}",
    "what@shoe": """
        5 An old shoe was falling down, step after step. {relief}
        3 It was a big bear made of cloth. {relief}""",
    "relief": """
        5 {$hero} laughed out loud. {told}
        4 "So that was my {$monster}," said {$hero}. {told}
        3 "You are a very brave {$kid}," said {$hero.their} {$elder}. {told}""",
    "told": """
        5 {$hero} put the {$lamp} next to the bed and slept well.{close}
        4 In the morning, {$hero} told {$hero.their} friend {friend} about the noise {$far}.{close}
        3 Since then, {$hero} is not afraid of the dark.{close}""",
}

SHARE = {
    "share": """
        5 One {morning} day, {$hero.their} {elder=elder} gave {$hero.them} {count=count} {sweet=sweet}. {$hero.They}
            went out with them. {walk=walk} {meet}
        4 {$hero} had {count=count} {sweet=sweet} from {$hero.their} {elder=elder} and took them to the {place}.
            {walk=walk} {meet}""",
    "count": "6 two | two; 6 three | three; 5 four | four; 3 five | five",
    "sweet": "8 cookies; 7 apples; 5 cakes; 4 plums; 3 buns; 2 cherries",
    "meet": """
        5 Soon {$hero.they} met {friend=friend}, who looked sad. "I have nothing to eat," said {$friend}. {want}
        4 There sat {friend=friend}, and {$friend.they} was crying. "I lost my lunch," {$friend.they} said. {want}
        3 Then {friend=friend} came along. "Those {$sweet} smell so good," said {$friend}. {want}""",
    "want": "6 {greedy} {give@count}; 4 {$hero} thought for a moment. {give@count}",
    "greedy": """
        5 At first, {$hero} wanted to keep them all.
        4 {$hero} wanted to be kind.
        3 {$hero.Their} {$elder} had said that sharing is good.""",
    "give@two": """
        1 {$hero.They} gave {$friend} one of the two {$sweet} and kept one. {eat}""",
    "give@three": """
        3 {$hero.They} gave {$friend} one of the three {$sweet} and kept two. {eat}
        2 {$hero.They} gave {$friend} two of the three {$sweet} and kept one. {eat}""",
    "give@four": """
        4 {$hero.They} gave {$friend} two of the four {$sweet} and kept two. {eat}
        2 {$hero.They} gave {$friend} one of the four {$sweet} and kept three. {eat}""",
    "give@five": """
        3 {$hero.They} gave {$friend} two of the five {$sweet} and kept three. {eat}
        2 {$hero.They} gave {$friend} three of the five {$sweet} and kept two. {eat}""",
    "eat": """
        5 They sat down {spot=spot} and ate. "Thank you, {$hero}," said {$friend}.{br}{turn}
        4 {$friend} smiled. "You are a good friend," {$friend.they} said, and they ate {spot=spot}.{br}{turn}""",
    "turn": """
        5 A few days later, {$hero} lost {$hero.their} {color=color} {wear=wear} in the wind. {return}
        4 The next week, {$hero} fell and hurt {$hero.their} {limb}, and {$hero.their} {color=color} {wear=wear} was
            torn. {return}
        2 When winter came, {$hero} was cold, for {$hero.their} {color=color} {wear=wear} was too small. {return}""",
    "wear": "7 hat; 6 coat; 5 scarf; 3 sweater; 2 cap",
    "limb": "6 knee; 4 arm; 3 foot; 1 elbow",
    "return": """
        5 {$friend} saw it. "You gave me {$sweet} when I was hungry," {$friend.they} said. "Now I will help you."
            {repay}
        4 Who came to help? It was {$friend}! {repay}""",
    "repay": """
        5 {$friend.They} gave {$hero} {$friend.their} own {$wear}. {share_end}
        4 {$friend.They} took {$hero} home, where they had {warm_drink} and talked about the day {$spot}.
            {share_end}
        3 Together, they found a new {$color} {$wear} at the market. {share_end}""",
    "warm_drink": "5 hot milk; 4 tea; 3 warm soup",
    "share_end": """
        5 {$hero} was glad that {$hero.they} had shared the {$sweet}.{end@walk}
        4 Now {$hero} and {$friend} share everything.{end@walk}
        3 "A friend is better than {$count} {$sweet}," said {$hero}.{end@walk}""",
}

RAIN = {
    "rain": """
        5 On {weekday}, {$hero} wanted to go to the {place=place} with {$hero.their} {elder=elder}. {wet}
        4 "Today we will go to the {place=place}," said the {elder=elder} of {$hero} one morning. {wet}""",
    "wet": """
        5 But then it began to rain. {upset}
        4 But big clouds came, and soon it rained and rained. {upset}
        2 But outside there was a storm. {upset}""",
    "upset": """
        5 "I wanted to {do=do}!" said {$hero}. {idea}
        4 {$hero} was sad, because {$hero.they} had hoped to {do=do} there. {idea}""",
    "do": """
        7 swim | swim; 6 fly a kite | fly; 5 have a picnic | eat; 4 feed the ducks | feed; 3 ride a pony | ride
        2 catch a fish | fish""",
    "idea": """
        5 "Let us make a {build=craft} out of {stuff=stuff}," said {$hero.their} {$elder}. {build_it}
        4 {$hero.Their} {$elder} brought some {stuff=stuff}. "Can you make a {build=craft} from this?" {$elder.they}
            asked. {build_it}""",
    "build": "8 castle; 6 ship; 5 tent; 4 rocket; 3 car; 2 robot",
    "stuff": "7 boxes; 6 paper; 5 old blankets; 3 wood; 2 pillows",
    "build_it": """
        5 They painted it {color=color} and {decor}. {play_in}
        4 {$hero} made it {color=color}, and {$hero.their} {$elder} {decor}. {play_in}""",
    "decor": "6 put a flag on top; 5 cut a little door; 3 drew stars on it; 2 gave it a name",
    "play_in": """
        5 {$hero} was the {role=role} of the {$color} {$craft}.{?roar}{br}{sun}
        4 "I am the {role=role}!" called {$hero} from the {$craft}.{?roar}{br}{sun}""",
    "role": "7 captain; 6 king; 5 queen; 4 pirate; 2 driver",
    "roar": "8 ~; 4 They played for hours.; 3 They forgot the rain.; 2 Even the dog wanted to come in.",
    "sun": """
        5 At last the sun came out. "Now we can go to the {$place} and {$do}!" said {$hero.their} {$elder}. {choose}
        4 Suddenly it was bright outside. "The rain is over," said {$hero.their} {$elder}. "Do you still want to
            {$do}?" {choose}""",
    "choose": """
        5 "Yes!" cried {$hero}, and off they went to the {$place}. {rain_end}
        4 "May the {$craft} come too?" asked {$hero}, and they took it to the {$place}. {rain_end}
        3 "Tomorrow," said {$hero}. "Today I am still the {$role}." {rain_end}""",
    "rain_end": """
        5 It was the best rainy day ever.{close}
        4 {$hero.They} kept the {$color} {$craft} made of {$stuff} for a long time.{close}
        3 Since that day, {$hero} likes the rain.{close}""",
}


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
