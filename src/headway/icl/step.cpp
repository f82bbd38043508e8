#include "draws.hpp"
