// Counts the words of standard input: how many of each, the most frequent and the longest, in order.
#include <algorithm>
#include <cctype>
#include <iomanip>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

using Count = std::pair<std::string, int>;

static std::string letters_of(const std::string &word) {
    std::string letters;
    for (unsigned char c : word)
        if (std::isalpha(c))
            letters += static_cast<char>(std::tolower(c));
    return letters;
}

static bool more_frequent(const Count &a, const Count &b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
}

static bool longer(const Count &a, const Count &b) {
    return a.first.size() != b.first.size() ? a.first.size() > b.first.size() : a.first < b.first;
}

static void print(const char *title, const std::vector<Count> &counts, int total) {
    std::cout << title << '\n' << std::fixed << std::setprecision(2);
    for (std::size_t i = 0; i < counts.size() && i < 10; i++)
        std::cout << std::setw(6) << counts[i].second << std::setw(7) << 100.0 * counts[i].second / total << "% "
                  << counts[i].first << '\n';
}

int main() {
    std::map<std::string, int> words;
    std::map<std::size_t, int> lengths;
    int total = 0;
    for (std::string word; std::cin >> word;) {
        std::string letters = letters_of(word);
        if (letters.empty())
            continue;
        total++;
        words[letters]++;
        lengths[letters.size()]++;
    }
    std::cout << total << " words, " << words.size() << " different\n";
    for (const auto &[length, count] : lengths)
        std::cout << length << " letters: " << count << '\n';
    std::vector<Count> counts(words.begin(), words.end());
    std::sort(counts.begin(), counts.end(), more_frequent);
    print("most frequent", counts, total);
    std::sort(counts.begin(), counts.end(), longer);
    print("longest", counts, total);
}
